"""The folders that a run writes beside its checkpoints: model/ and about/."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

from chimera_lab.data.files import write_folder
from chimera_lab.data.samples import contents
from chimera_lab.training.module import TrainingModule
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.run import Run
from chimera_lab.training.settings import keys
from chimera_lab.training.task import Task
from chimera_ssm.models.base import ChimeraPreTrainedModel
from chimera_ssm.models.card import write_card


def export_model(run: Run, module: TrainingModule, which: str) -> None:
    """Write model/ with the weights ``"raw"`` or ``"ema"``."""
    write_folder(run.model, lambda folder: module.task.save(module.weights()[which], folder))


def write_model_card(run: Run, module: TrainingModule, which: str) -> None:
    """Replace README.md in model/ by one with the data and the metrics of the weights there."""
    if not isinstance(module.model, ChimeraPreTrainedModel):  # baselines of other libraries have cards of their own
        return
    averaged = {name.removesuffix("_ema"): x for name, x in module.results.items() if name.endswith("_ema")}
    trained = {name: x for name, x in module.results.items() if not name.endswith("_ema")}
    # Of the best weights, those of an earlier evaluation, only the monitored metric is known.
    metrics = {"raw": trained, "ema": averaged}.get(which, {})
    settings = _settings(run.recipe)
    data = f"`{settings['data']}`, by `chimera train` with the recipe `{run.name}`."
    write_card(module.model, run.model, data=data, metrics=metrics, settings=settings)


def _settings(recipe: Recipe) -> dict[str, Any]:
    """The data and all settings that differ from their defaults; of folders the names alone, since cards are shared."""
    chosen = {
        key.name: getattr(recipe, key.name)
        for key in keys(type(recipe))
        if key.name == "data" or getattr(recipe, key.name) != key.default
    }
    return {
        name: Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value
        for name, value in chosen.items()
    }


def save_metadata(run: Run, module: TrainingModule) -> None:
    """Write about/, which is needed to continue and to evaluate the run."""

    def write(folder: Path) -> None:
        module.task.save_metadata(module.model, folder)
        (folder / "data").write_text(fingerprint(module.task), encoding="utf-8")

    write_folder(run.about, write)


def fingerprint(task: Task) -> str:
    """A digest of the data; equal data have equal fingerprints."""
    digest = blake2b(digest_size=16)
    for part in task.parts():
        for content in contents(part):
            digest.update(content)
    return digest.hexdigest()
