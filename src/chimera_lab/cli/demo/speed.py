"""A few quick measurements against attention, as `chimera bench --quick` makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chimera_lab.cli.bench.cases import pick
from chimera_lab.cli.bench.isolated import measure_isolated
from chimera_lab.training.files import read_json, write_json

CASES = ("line-4096", "grid-64", "grid-14", "molecules")
_SECONDS = 1.0


def measure_once(path: Path) -> list[dict[str, Any]]:
    """The ratios to attention of each case, measured once and then read from ``path``."""
    if path.exists():
        return read_json(path, list, "delete it to measure again")
    speeds = []
    for case in pick(list(CASES)):
        result = measure_isolated(case, _SECONDS, None)
        assert result.backward is not None
        ratios = {"forward": result.forward.ratio, "backward": result.backward.ratio}
        speeds.append({"what": case.what, "against": case.against, **ratios})
    write_json(path, speeds)
    return speeds
