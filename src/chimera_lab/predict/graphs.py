"""Predictions for molecules."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from chimera_lab.data.molecules import CLASSES, REGRESSION, feature_values
from chimera_lab.predict.labels import class_names, columns
from chimera_lab.show.graphs import molecule_inputs
from chimera_lab.show.loading import Trained


@torch.inference_mode()
def predict(trained: Trained, smiles: list[str], batch_size: int) -> list[dict[str, Any]]:
    """A row for each molecule."""
    config = trained.model.config
    if list(np.atleast_1d(config.node_features)) != feature_values()[0] or config.level != "graph":
        raise ValueError(
            f"{trained.folder} was not trained on molecules as a whole: predictions from SMILES need the features of "
            "atoms and labels of graphs; call the model in Python on your own graphs"
        )
    names = _names(trained)
    rows: list[dict[str, Any]] = []
    for start in range(0, len(smiles), batch_size):
        batch = smiles[start : start + batch_size]
        graphs = [_read(one, start + k + 1, config) for k, one in enumerate(batch)]
        logits = trained.model(**_collate(graphs)).logits
        rows += [
            {"input": one, **values}
            for one, values in zip(batch, columns(logits, config.problem_type, names), strict=True)
        ]
    return rows


def _names(trained: Trained) -> list[str]:
    """Names of the outputs: the columns of the csv file that a run was trained on, if they are known."""
    config, recipe = trained.model.config, None if trained.run is None else trained.run.recipe
    targets = [name.strip() for name in getattr(recipe, "targets", "").split(",")]
    if config.problem_type != CLASSES and len(targets) == config.num_labels and all(targets):
        return targets
    names = class_names(config)
    return ["y"] if config.problem_type == REGRESSION and names == ["0"] else names


def _read(smiles: str, number: int, config: Any) -> dict[str, torch.Tensor]:
    try:
        return molecule_inputs(smiles, config)
    except ValueError as error:
        raise ValueError(f"input {number}: {error}") from None


def _collate(graphs: list[dict[str, torch.Tensor]]) -> dict[str, Any]:
    """The union of graphs, with the index of each node's graph."""
    sizes = [len(graph["x"]) for graph in graphs]
    starts = np.cumsum([0, *sizes[:-1]]).tolist()
    edges = torch.cat([graph["edge_index"] + start for graph, start in zip(graphs, starts, strict=True)], dim=1)
    rest = {name: torch.cat([graph[name] for graph in graphs]) for name in graphs[0] if name != "edge_index"}
    batch = torch.arange(len(graphs)).repeat_interleave(torch.tensor(sizes))
    return {**rest, "edge_index": edges, "batch": batch, "batch_size": len(graphs)}
