"""Trained weights by the name of a preset: folders ``weights/<name>`` of the project."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "CHIMERA_WEIGHTS"


def weights_folder() -> Path:
    """The folder of all weights: that of the environment variable, or that of the project's checkout."""
    given = os.environ.get(VARIABLE)
    return Path(given).expanduser() if given else Path(__file__).resolve().parents[3] / "weights"


def find_weights(name: str) -> Path:
    """The folder of a preset's weights.

    Raises:
        ValueError: there are none; the message says which exist, and where weights are looked for.
    """
    home = weights_folder()
    if (home / name / "config.json").is_file():
        return home / name
    there = sorted(path.parent.name for path in home.glob("*/config.json"))
    exist = f"there are: {', '.join(there)}" if there else "there are none"
    where = f"in {home}" if home.is_dir() else f"in {home}, which does not exist"
    raise ValueError(
        f"no trained weights of {name!r} {where}; {exist}. Wheels come without weights: set {VARIABLE} to the folder "
        "weights/ of a checkout of the project, or leave out pretrained=True to train from the start"
    )
