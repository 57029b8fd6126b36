"""Trained weights by name: folders that come with the package, or those in a folder of the user."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "CHIMERA_WEIGHTS"


def weights_folder() -> Path:
    """The folder of all weights: that of the environment variable, or that of the package."""
    given = os.environ.get(VARIABLE)
    return Path(given).expanduser() if given else Path(__file__).resolve().parents[1] / "weights"


def trained_models() -> list[str]:
    """Names of the models that have trained weights."""
    return sorted(path.parent.name for path in weights_folder().glob("*/config.json"))


def find_weights(name: str) -> Path:
    """The folder of a model's weights.

    Raises:
        ValueError: there are none; the message says which exist, and where weights are looked for.
    """
    home, there = weights_folder(), trained_models()
    if name in there:
        return home / name
    exist = f"there are: {', '.join(there)}" if there else "there are none"
    where = f"in {home}" if home.is_dir() else f"in {home}, which does not exist"
    raise ValueError(
        f"no trained weights of {name!r} {where}; {exist}. Leave out pretrained=True to train from the start, or set "
        f"{VARIABLE} to a folder in which {name}/ was written by save_pretrained"
    )
