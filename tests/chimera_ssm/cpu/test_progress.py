"""Long operations report that they go on."""

import time

from chimera_ssm.cpu import progress as module
from chimera_ssm.cpu.progress import progress


def test_a_line_at_each_interval_and_none_afterwards(monkeypatch, capsys):
    monkeypatch.setattr(module, "INTERVAL", 0.05)
    with progress("counting", 2000):
        time.sleep(0.18)
    lines = capsys.readouterr().err.splitlines()
    assert 1 <= len(lines) <= 3
    assert lines[0] == "chimera: counting of 2,000 nodes: 0 s so far"
    time.sleep(0.1)
    with progress("counting", 1000):  # small
        time.sleep(0.1)
    assert capsys.readouterr().err == ""
