"""A few quick measurements against attention, as `chimera bench --quick` does them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CASES = ("line-4096", "grid-64", "grid-14", "molecules")
_SECONDS = 1.0


def measured(path: Path) -> list[dict[str, Any]]:
    """For each case what it is and its ratios to attention, measured once and kept in a file."""
    from chimera_ssm.cli.bench.alone import measure_alone
    from chimera_ssm.cli.bench.cases import pick

    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    found = []
    for case in pick(list(CASES)):
        result = measure_alone(case, _SECONDS, None)
        assert result.backward is not None
        ratios = {"forward": result.forward.ratio, "backward": result.backward.ratio}
        found.append({"what": case.what, "against": case.against, **ratios})
    path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return found
