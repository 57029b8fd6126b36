"""Load a trained model from the folder of a run or of a saved model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import chimera_lab.baselines  # noqa: F401  (registers the baseline mixers)
from chimera_lab.training.files import read_json, reading
from chimera_lab.training.kinds import create_task
from chimera_lab.training.run import Run, open_run
from chimera_ssm import models
from chimera_ssm.models.pretrained import find_weights, trained_models


@dataclass(frozen=True)
class Trained:
    """A trained model.

    Attributes:
        model: the model, in evaluation mode.
        folder: the folder from which it was loaded.
        run: the run that trained it, if known.
    """

    model: Any
    folder: Path
    run: Run | None

    def sample(self, given: str | None, instead: str) -> Any | None:
        """The test sample whose number is given, the first if nothing is; ``None`` if the input is not a number.

        Args:
            given: the input on the command line.
            instead: the other kind of input, for the error message.
        """
        number = given is None or given.lstrip("-").isdigit()
        if not number:
            return None
        if self.run is None:
            raise ValueError(f"{self.folder} is a model without its data: give {instead} as the input")
        task = create_task(self.run.recipe)
        self.run.load_metadata(task)
        samples = task.test_samples()
        if not 0 <= int(given or 0) < len(samples):
            raise ValueError(f"there are {len(samples)} test samples, numbered from 0; found {given}")
        with torch.random.fork_rng():
            torch.manual_seed(0)  # masks the same words each time
            return samples.sample(int(given or 0))


def load(folder: Path) -> Trained:
    """Load the model of a run's folder, of a folder written by ``save_pretrained``, or a trained model by its name."""
    if not folder.exists() and str(folder) in trained_models():
        folder = find_weights(str(folder))
    run = open_run(folder) if (folder / "config.yaml").is_file() else None
    home = folder if run is None else run.model
    if not (home / "config.json").is_file():
        raise ValueError(
            f"{folder} holds neither a run nor a saved model: it has no config.yaml and no config.json, and is not the "
            f"name of a trained model ({', '.join(trained_models())})"
            if run is None
            else f"{folder} has no trained model yet: continue it with chimera train --resume {folder}"
        )
    return Trained(_load_model(home), home, run)


def _load_model(folder: Path) -> Any:
    from transformers.utils import logging

    logging.disable_progress_bar()
    name = _architecture(folder / "config.json")
    if name not in models.__all__:
        raise ValueError(f"{folder} holds a {name or 'model without a name'}: only Chimera's models have resolvents")
    with reading(folder, "save the model again"):
        model, found = getattr(models, name).from_pretrained(folder, output_loading_info=True)
    if mismatched := sorted({*found["missing_keys"], *found["unexpected_keys"]}):
        raise ValueError(
            f"{folder} does not hold the weights that its config.json asks for: {mismatched[0]} is in only one of "
            "them; save the model again"
        )
    return model.eval()


def _architecture(path: Path) -> str:
    """The class of a saved model; empty if the file does not name one."""
    names = read_json(path, dict, "save the model again").get("architectures")
    return str(names[0]) if isinstance(names, list) and len(names) == 1 else ""
