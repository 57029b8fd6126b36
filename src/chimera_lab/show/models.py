"""The influence between the nodes of an input in a trained model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from chimera_lab.show import graphs, images, texts
from chimera_lab.show.loading import Trained
from chimera_lab.show.view import Scene, View, influence_view
from chimera_ssm.nn import influence, resolvent_share

_SCENES: dict[str, Callable[[Trained, str | None], tuple[Scene, dict[str, Any]]]] = {
    "chimera_image": images.scene,
    "chimera_text": texts.scene,
    "chimera_causal": texts.scene,
    "chimera_graph": graphs.scene,
}


def show_model(trained: Trained, given: str | None, node: str | None, layer: int | None, head: int | None) -> View:
    """The rows of the resolvents of all layers and heads for one input.

    Args:
        trained: the model.
        given: an image file, a sentence, a molecule as SMILES, or the number of a test sample; the first if omitted.
        node: the node to show first, by number or label.
        layer: the layer to show first; the mean over all if omitted.
        head: the head to show first; the mean over all if omitted.
    """
    scene, inputs = _SCENES[trained.model.config.model_type](trained, given)

    def rows_of(nodes: list[int]) -> np.ndarray:
        rows = influence(trained.model, nodes, **inputs)
        return np.stack([row.reshape(-1, *row.shape[-2:]).numpy() for row in rows]).astype(np.float32)

    view = influence_view(scene, rows_of, scene.find(node), layer, head)
    return replace(view, note=" ".join(filter(None, (view.note, _shares(trained.model, inputs)))))


def _shares(model: Any, inputs: dict[str, Any]) -> str:
    """The magnitude of the resolvent's output in each layer, as a sentence."""
    shares = ", ".join(f"{share:.2f}" for share in resolvent_share(model, **inputs))
    return f"Output of the resolvent, relative to the direct connection around it, layer by layer: {shares}."
