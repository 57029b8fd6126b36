"""A molecule or another graph as a scene, whose nodes are the atoms or the graph's nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from chimera_lab.data.molecules import CLASSES, LABELS, feature_values, molecule_graph
from chimera_lab.data.positions import positions
from chimera_lab.show.drawing import draw_graph, draw_molecule
from chimera_lab.show.loading import Trained
from chimera_lab.show.view import Scene


def scene(trained: Trained, given: str | None) -> tuple[Scene, dict[str, Any]]:
    """The scene and the model inputs of a molecule, given as SMILES, or of a test graph, given by number."""
    sample = trained.sample(given, "a molecule, as SMILES,")
    config = trained.model.config
    inputs = (
        molecule_inputs(str(given), config) if sample is None else {k: v for k, v in sample.items() if k != "labels"}
    )
    x, edges = inputs["x"].numpy(), inputs["edge_index"].numpy()
    title = str(given) if sample is None else f"test graph {given or 0}"
    if list(np.atleast_1d(config.node_features)) == feature_values()[0]:
        labels, drawing = draw_molecule(x, edges, inputs["edge_attr"].numpy())
        node = "atom"
    else:
        labels, drawing, node = [str(k) for k in range(len(x))], draw_graph(len(x), edges), "node"
    return Scene("graph", title, node, labels, drawing, prediction=_prediction(trained.model, inputs)), inputs


def molecule_inputs(smiles: str, config: Any) -> dict[str, Any]:
    """The inputs of a model for a molecule, with positions if the model has them."""
    x, edges, bonds = (a.astype(np.int64) for a in molecule_graph(smiles))
    inputs = {"x": x, "edge_index": edges, "edge_attr": bonds}
    if config.position_features:
        walks = config.position_features - config.eigenvectors
        inputs["positions"] = positions(edges, len(x), walks, config.eigenvectors)
    return {name: torch.from_numpy(array) for name, array in inputs.items()}


def _prediction(model: Any, inputs: dict[str, Any]) -> str:
    """The five most probable classes, or the first five probabilities of labels or values of a regression."""
    if model.config.level != "graph":
        return ""
    with torch.no_grad():
        logits = model(**inputs).logits[0]
    problem = model.config.problem_type
    if problem == CLASSES:
        probabilities, classes = logits.softmax(0).sort(descending=True)
        texts = [f"class {k} ({p:.2f})" for k, p in zip(classes.tolist(), probabilities.tolist(), strict=True)]
    else:
        texts = [f"{v:.3g}" for v in (logits.sigmoid() if problem == LABELS else logits).tolist()]
    shown = ", ".join(texts[:5] + ["…"] * (len(texts) > 5))
    return f"{'probabilities' if problem == LABELS else 'predicted'}: {shown}"
