"""Progress: a bar on a terminal, else a line."""

import io
import sys

import pytest

from chimera_lab.data.progress import each, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_line_where_there_is_no_terminal(capsys):
    with each(range(3), "reading 3 numbers") as numbers:
        assert list(numbers) == [0, 1, 2]
    assert capsys.readouterr().err == "reading 3 numbers\n"


@pytest.mark.parametrize("total", [3, None])
def test_a_bar_on_a_terminal(monkeypatch, total):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress("reading numbers", total) as advance:
        advance(3)
    assert "reading numbers" in sys.stderr.getvalue()
    assert ("100%" in sys.stderr.getvalue()) == (total is not None)


def test_the_bar_ends_when_something_is_refused(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(ValueError, match="'x'"), each("1x", "reading") as letters:
        list(map(int, letters))
    assert sys.stderr.getvalue().count("\x1b[?25h") == 1  # the cursor is back
