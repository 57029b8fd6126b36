"""Compiled kernels on disk: damaged files are named, removed and made again."""

import importlib.util
import re

import numpy as np
import pytest

pytest.importorskip("numba")

SOURCE = """
from chimera_ssm.cpu.compilation import kernel

@kernel
def double(x):
    return 2 * x
"""


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """The function, as a new process would import it."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")  # beside the source
    path = tmp_path / "doubling.py"
    path.write_text(SOURCE)

    def load():
        spec = importlib.util.spec_from_file_location("doubling", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.double

    return load


def files(folder, suffix):
    return list((folder / "__pycache__").glob(f"*{suffix}"))


@pytest.mark.parametrize("harm", ["truncated", "empty", "flipped", "text"])
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_a_damaged_file_is_named_and_made_again(fresh, tmp_path, caplog, suffix, harm):
    assert fresh()(3) == 6
    assert fresh()(3) == 6
    assert not caplog.records
    (path,) = files(tmp_path, suffix)
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    path.write_bytes({"truncated": content[:20], "empty": b"", "flipped": flipped, "text": b"not a cache at all"}[harm])
    assert fresh()(3) == 6
    assert re.fullmatch(rf"{re.escape(str(path))} is damaged: it is removed, .* compiled again", caplog.messages[0])
    assert len(caplog.messages) == 1
    again = fresh()
    assert again(3) == 6
    assert len(caplog.messages) == 1
    assert sum(again.stats.cache_hits.values()) == 1  # written anew, and read


def test_several_signatures_are_kept(fresh, tmp_path):
    first = fresh()
    first(1), first(np.ones(3))
    second = fresh()
    np.testing.assert_array_equal(second(np.ones(3)), 2 * np.ones(3))
    assert second(1) == 2
    assert sum(second.stats.cache_misses.values()) == 0
    assert len(files(tmp_path, ".nbc")) == 2


def test_a_missing_file_is_made_again_without_a_word(fresh, tmp_path, caplog):
    fresh()(3)
    for path in files(tmp_path, ".nbc"):
        path.unlink()
    assert fresh()(3) == 6
    assert not caplog.records
