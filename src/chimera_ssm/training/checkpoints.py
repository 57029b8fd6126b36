"""Checkpoints that survive a kill at any moment, and are not trusted blindly."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io import TorchCheckpointIO

from chimera_ssm.training.recipe import Recipe
from chimera_ssm.training.settings import as_dict, keys

KEPT = 2


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where the checkpoint after so many steps is."""
    return folder / f"step-{step:09d}.ckpt"


def step_of(path: Path) -> int:
    """The step in a checkpoint's name."""
    return int(path.stem.partition("-")[2])


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoints of a folder, the oldest first."""
    return sorted(folder.glob("step-*.ckpt"))


def prune(folder: Path, step: int) -> None:
    """Keep the last checkpoints up to ``step``: later ones are from before the run went back."""
    past = [path for path in checkpoints(folder) if step_of(path) <= step]
    for path in set(checkpoints(folder)) - set(past[-KEPT:]):
        path.unlink(missing_ok=True)
    for path in folder.glob("*.part"):
        path.unlink(missing_ok=True)


def write_durably(path: Path, write: Any) -> None:
    """Write a file aside with ``write(file)``, sync it, rename it, sync the folder: it is there whole or not at all."""
    aside = path.with_name(f"{path.name}.part")
    try:
        with open(aside, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except (OSError, RuntimeError) as error:  # torch.save turns a full disk into a RuntimeError
        aside.unlink(missing_ok=True)
        reason = error.strerror if isinstance(error, OSError) and error.strerror else _root_reason(error)
        raise OSError(
            f"cannot write {path}: {reason}; make room or choose another folder, what was written before is intact"
        ) from error


def _root_reason(error: BaseException) -> str:
    cause = error.__context__
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(error).splitlines()[0]


class DurableCheckpointIO(TorchCheckpointIO):
    """Lightning's way to files: written durably, read with a check of every byte and without unpickling code."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        path = Path(path)
        write_durably(path, lambda file: torch.save(checkpoint, file))

    def load_checkpoint(self, path: Any, map_location: Any = "cpu", weights_only: bool | None = True) -> dict[str, Any]:
        return torch.load(path, map_location=map_location, weights_only=True)


def load(path: Path, recipe: Recipe) -> dict[str, Any]:
    """A checkpoint of this recipe; broken files and those of other runs are refused.

    Raises:
        ValueError: says what is wrong, and which earlier checkpoint is intact.
    """
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}")
    problem, checkpoint = _examine(path, recipe)
    if problem is None:
        return checkpoint
    raise ValueError(f"{path} {problem}; {_advice(path, recipe)}")


def _examine(path: Path, recipe: Recipe) -> tuple[str | None, dict[str, Any]]:
    """What is wrong with a checkpoint, if anything, and what it holds."""
    try:
        with zipfile.ZipFile(path) as file:
            broken = file.testzip()
        checkpoint: Any = None if broken else torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # zip, pickle and torch raise errors of many kinds
        return f"cannot be read: it is truncated or not a checkpoint ({type(error).__name__})", {}
    if broken:
        return f"is damaged (in {broken})", {}
    state = checkpoint.get("chimera") if isinstance(checkpoint, dict) else None
    if not isinstance(state, dict) or "step" not in state or "recipe" not in state:
        return "is not a checkpoint of a Chimera run", {}
    wanted, places = as_dict(recipe), {key.name for key in keys(type(recipe)) if key.place is not None}
    names = (wanted.keys() | state["recipe"].keys()) - places  # data may have been moved
    other = sorted(name for name in names if wanted.get(name) != state["recipe"].get(name))
    if other:
        key = other[0]
        return (
            f"is of another recipe: {key} is {state['recipe'].get(key)} there and {wanted.get(key)} in this run's "
            f"config.yaml"
        ), {}
    return None, checkpoint


def _advice(path: Path, recipe: Recipe) -> str:
    for earlier in reversed(checkpoints(path.parent)):
        if earlier.name < path.name and _examine(earlier, recipe)[0] is None:
            return f"{earlier.name} is intact, go on from it with: chimera train --resume {earlier}"
    return f"no earlier one is intact; delete {path.parent} to begin this run again"
