"""From the folder of a run or of a saved model, and an input, to a view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from chimera_lab.show.view import Scene, View, view_of
from chimera_lab.training.files import read_json, reading
from chimera_lab.training.run import Run, open_run

Array = np.ndarray


@dataclass(frozen=True)
class Trained:
    """A model that can be looked into.

    Attributes:
        model: in evaluation mode.
        folder: that it was loaded from.
        run: the run it is from, if it is known.
    """

    model: Any
    folder: Path
    run: Run | None

    def sample(self, given: str | None, instead: str) -> Any | None:
        """The test sample that a number, or nothing, stands for; ``None`` if the input is none of these."""
        number = given is None or given.lstrip("-").isdigit()
        if not number:
            return None
        if self.run is None:
            raise ValueError(f"{self.folder} is a model without its data: name {instead} to look at")
        task = self.run.recipe.task()
        self.run.recall(task)
        samples = task.test_samples()
        if not 0 <= int(given or 0) < len(samples):
            raise ValueError(f"there are {len(samples)} test samples, numbered from 0; found {given}")
        with torch.random.fork_rng():
            torch.manual_seed(0)  # the same words are masked each time
            return samples.sample(int(given or 0))


def load(folder: Path) -> Trained:
    """The model in the folder of a run, or in one made by ``save_pretrained``."""
    run = open_run(folder) if (folder / "config.yaml").is_file() else None
    home = folder if run is None else run.model
    if not (home / "config.json").is_file():
        raise ValueError(
            f"{folder} holds neither a run nor a saved model: it has no config.yaml and no config.json"
            if run is None
            else f"{folder} has no trained model yet: continue it with chimera train --resume {folder}"
        )
    return Trained(_load_model(home), home, run)


def _load_model(folder: Path) -> Any:
    from transformers.utils import logging

    import chimera_lab.baselines  # noqa: F401  (registers the baseline mixers)
    from chimera_ssm import models

    logging.disable_progress_bar()
    name = _architecture(folder / "config.json")
    if name not in models.__all__:
        raise ValueError(f"{folder} holds a {name or 'model without a name'}: only Chimera's models have resolvents")
    with reading(folder, "save the model again"):
        model, found = getattr(models, name).from_pretrained(folder, output_loading_info=True)
    if strange := sorted({*found["missing_keys"], *found["unexpected_keys"]}):
        raise ValueError(
            f"{folder} does not hold the weights that its config.json asks for: {strange[0]} is in one of them only; "
            f"save the model again"
        )
    return model.eval()


def _architecture(path: Path) -> str:
    """The class of a saved model, empty if that is not said."""
    names = read_json(path, dict, "save the model again").get("architectures")
    return str(names[0]) if isinstance(names, list) and len(names) == 1 else ""


def show(trained: Trained, given: str | None, node: str | None, layer: int | None, head: int | None) -> View:
    """What the nodes of an input hear in a trained model.

    Args:
        trained: the model.
        given: an image's file, a sentence, a molecule as SMILES, or the number of a test sample; the first if omitted.
        node: the node to begin with, by number or label.
        layer: the layer to begin with; the mean over all if omitted.
        head: the head to begin with; the mean over all if omitted.
    """
    from chimera_lab.show import graphs, images, texts

    kinds: dict[str, Callable[[Trained, str | None], tuple[Scene, dict[str, Any]]]] = {
        "chimera_image": images.scene,
        "chimera_text": texts.scene,
        "chimera_graph": graphs.scene,
    }
    scene, inputs = kinds[trained.model.config.model_type](trained, given)

    def hear(nodes: list[int]) -> Array:
        from chimera_ssm.nn import influence

        rows = influence(trained.model, nodes, **inputs)
        return np.stack([row.reshape(-1, *row.shape[-2:]).numpy() for row in rows]).astype(np.float32)

    view = view_of(scene, hear, scene.find(node), layer, head)
    return replace(view, note=" ".join(filter(None, (view.note, _shares(trained.model, inputs)))))


def _shares(model: Any, inputs: dict[str, Any]) -> str:
    """The share of the resolvent in each layer, as a sentence."""
    from chimera_ssm.nn import resolvent_share

    shares = ", ".join(f"{share:.2f}" for share in resolvent_share(model, **inputs))
    return f"Magnitude of the mixed term relative to the skip connection, layer by layer: {shares}."
