"""A few damaged files of each kind; `make mutations` reads two thousand of each."""

from tests.chimera_lab.data import mutations


def test_damaged_files_are_refused_or_read_right():
    found = mutations.run(list(mutations.KINDS), 5)
    bad = {name: [what for what in counter if what not in ("right", "refused")] for name, counter in found.items()}
    assert not any(bad.values()), bad
    assert all(counter.total() == 5 for counter in found.values())
