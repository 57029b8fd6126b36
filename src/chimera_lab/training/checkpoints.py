"""Checkpoints: written atomically, and verified when they are loaded."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lightning.fabric.plugins.io import TorchCheckpointIO
from torch import Tensor
from torch.optim import Optimizer

from chimera_lab.data.files import write_atomically
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.settings import as_dict, keys

if TYPE_CHECKING:
    from chimera_lab.training.module import TrainingModule

KEPT = 2


def checkpoint_path(folder: Path, step: int) -> Path:
    """The path of the checkpoint after ``step`` steps."""
    return folder / f"step-{step:09d}.ckpt"


def best_path(folder: Path) -> Path:
    """The path of the checkpoint that was best on validation data, with ``export=best``."""
    return folder / "best.ckpt"


def step_of(path: Path) -> int:
    """The step in a checkpoint's name."""
    return int(path.stem.partition("-")[2])


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoints of a folder, the oldest first."""
    return sorted(folder.glob("step-*.ckpt"))


def prune(folder: Path, step: int) -> None:
    """Keep the last checkpoints up to ``step``; later ones precede a resumption from an earlier step."""
    past = [path for path in checkpoints(folder) if step_of(path) <= step]
    for path in set(checkpoints(folder)) - set(past[-KEPT:]):
        path.unlink(missing_ok=True)
    for path in folder.glob("*.part"):
        path.unlink(missing_ok=True)


class DurableCheckpointIO(TorchCheckpointIO):
    """Lightning's interface to files: atomic writes, and loading that cannot execute code."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        path = Path(path)
        write_atomically(path, lambda file: torch.save(checkpoint, file))

    def load_checkpoint(self, path: Any, map_location: Any = "cpu", weights_only: bool | None = True) -> dict[str, Any]:
        return torch.load(path, map_location=map_location, weights_only=True)


#: The entries of our part of a checkpoint, and the entries of Lightning's that we need.
_STATE = {"recipe": dict, "step": int, "sums": dict, "results": dict}
_PARTS = "state_dict", "optimizer_states", "callbacks"


def load(path: Path, recipe: Recipe) -> dict[str, Any]:
    """Load a checkpoint of this recipe; damaged files and those of other runs are refused.

    Raises:
        ValueError: says what is wrong, and which earlier checkpoint is intact.
    """
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}")
    problem, checkpoint = _examine(path, recipe)
    if problem is None:
        return checkpoint
    raise ValueError(f"{path} {problem}; {_advice(path, recipe)}")


def check_fits(path: Path, checkpoint: dict[str, Any], module: TrainingModule) -> None:
    """Refuse a checkpoint whose tensors have other names or shapes than the module's, or are not finite."""
    if (problem := _misfit(checkpoint, module)) is not None:
        raise ValueError(f"{path} does not fit the run: {problem}; {_advice(path, module.recipe, module)}")


def _misfit(checkpoint: dict[str, Any], module: TrainingModule) -> str | None:
    """The first difference between the tensors of a checkpoint and of a module, if there is one."""
    found, wanted = checkpoint["state_dict"], module.state_dict()
    for name in sorted(wanted.keys() | found.keys()):
        if name not in wanted:
            return f"it holds {name}, which the model does not have"
        if not isinstance(value := found.get(name), Tensor):
            return f"{name} is missing"
        if value.shape != wanted[name].shape:
            return f"{name} has the shape {tuple(value.shape)} there and {tuple(wanted[name].shape)} in the model"
        if value.is_floating_point() and not bool(value.isfinite().all()):
            return f"{name} is not finite"
    try:
        fits = _optimizer_fits(checkpoint["optimizer_states"][0], module.configure_optimizers())
    except (AttributeError, IndexError, KeyError, TypeError):  # built in another way
        fits = False
    return None if fits else "the optimiser's state has other sizes than the model"


def _optimizer_fits(state: dict[str, Any], optimizer: Optimizer) -> bool:
    """Whether the state has the optimizer's shapes; FSDP stores its state by name and checks it itself."""
    ours, theirs = optimizer.param_groups, state["param_groups"]
    if [len(group["params"]) for group in ours] != [len(group["params"]) for group in theirs]:
        return False
    parameters = [parameter for group in ours for parameter in group["params"]]
    return all(
        value.ndim == 0 or value.shape == parameter.shape
        for number, parameter in enumerate(parameters)
        for value in state["state"].get(number, {}).values()
    )


def _examine(path: Path, recipe: Recipe) -> tuple[str | None, dict[str, Any]]:
    """The problem with a checkpoint, if there is one, and its content."""
    try:
        with zipfile.ZipFile(path) as file:
            broken = file.testzip()
        checkpoint: Any = None if broken else torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # zip, pickle and torch raise errors of many kinds
        return f"cannot be read: it is truncated or not a checkpoint ({type(error).__name__})", {}
    if broken:
        return f"is damaged (in {broken})", {}
    state = checkpoint.get("chimera") if isinstance(checkpoint, dict) else None
    if not isinstance(state, dict) or any(not isinstance(state.get(key), kind) for key, kind in _STATE.items()):
        return "is not a checkpoint of a Chimera run", {}
    if missing := [key for key in _PARTS if key not in checkpoint]:
        return f"is incomplete: it has no {missing[0]}", {}
    return _other_recipe(state["recipe"], recipe), checkpoint


def _other_recipe(there: dict[str, Any], recipe: Recipe) -> str | None:
    """How a checkpoint's recipe differs from a run's, if it does.

    Paths may differ, because data may be moved. A setting that a checkpoint lacks is newer than the checkpoint, and
    had its default value.
    """
    here, paths = as_dict(recipe), {key.name for key in keys(type(recipe)) if key.place is not None}
    defaults = {key.name: list(d) if isinstance(d := key.default, tuple) else d for key in keys(type(recipe))}
    for name in sorted((here.keys() | there.keys()) - paths):
        found = there.get(name, defaults.get(name))
        if here.get(name) != found:
            return f"is of another recipe: {name} is {found} there and {here.get(name)} in this run's config.yaml"
    return None


def _advice(path: Path, recipe: Recipe, module: TrainingModule | None = None) -> str:
    for earlier in reversed(checkpoints(path.parent)):
        if earlier.name < path.name:
            problem, checkpoint = _examine(earlier, recipe)
            if problem is None and (module is None or _misfit(checkpoint, module) is None):
                return f"{earlier.name} is intact, continue from it with: chimera train --resume {earlier}"
    return f"no earlier one is intact; delete {path.parent} to begin this run again"
