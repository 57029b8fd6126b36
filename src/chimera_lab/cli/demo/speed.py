"""A few quick measurements against attention, as `chimera bench --quick` does them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CASES = ("line-4096", "grid-64", "grid-14", "molecules")
_SECONDS = 1.0


def measured(path: Path) -> list[dict[str, Any]]:
    """For each case what it is and its ratios to attention, measured once and kept in a file."""
    from chimera_lab.cli.bench.alone import measure_alone
    from chimera_lab.cli.bench.cases import pick
    from chimera_lab.training.files import read_json, write_json

    if path.exists():
        return read_json(path, list, "delete it to measure again")
    found = []
    for case in pick(list(CASES)):
        result = measure_alone(case, _SECONDS, None)
        assert result.backward is not None
        ratios = {"forward": result.forward.ratio, "backward": result.backward.ratio}
        found.append({"what": case.what, "against": case.against, **ratios})
    write_json(path, found)
    return found
