"""A few quick measurements against attention, as `chimera bench --quick` makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chimera_lab.cli.bench.cases import pick
from chimera_lab.cli.bench.isolated import measure_isolated
from chimera_lab.training.files import read_json, write_json

#: The cases in words.
CASES = {
    "line-4096": "line of 4,096 words, in both directions",
    "grid-64": "grid of 64 × 64 pixels, from all four corners",
    "grid-14": "8 grids of 14 × 14 pixels, from all four corners",
    "molecules": "32 molecules of 150 atoms, along all paths",
}
_SECONDS = 1.0


def measure_once(path: Path) -> list[dict[str, Any]]:
    """The ratios to attention of each case, measured once and then read from ``path``."""
    if path.exists():
        return read_json(path, list, "delete it to measure again")
    speeds = []
    for case, what in zip(pick(list(CASES)), CASES.values(), strict=True):
        result = measure_isolated(case, _SECONDS, None)
        assert result.backward is not None
        ratios = {"forward": result.forward.ratio, "backward": result.backward.ratio}
        speeds.append({"what": what, "against": "attention", **ratios})
    write_json(path, speeds)
    return speeds
