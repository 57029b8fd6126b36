"""A molecule, or any other graph, as a scene: its atoms or nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from chimera_lab.data.molecules import CLASSES, LABELS, feature_values, molecule_graph
from chimera_lab.data.positions import positions
from chimera_lab.show.layout import place
from chimera_lab.show.loading import Trained
from chimera_lab.show.view import Scene

Array = np.ndarray


def scene(trained: Trained, given: str | None) -> tuple[Scene, dict[str, Any]]:
    """A molecule as SMILES, or a test graph by number."""
    sample = trained.sample(given, "a molecule, as SMILES,")
    config = trained.model.config
    inputs = _of_smiles(str(given), config) if sample is None else {k: v for k, v in sample.items() if k != "labels"}
    x, edges = inputs["x"].numpy(), inputs["edge_index"].numpy()
    title = str(given) if sample is None else f"test graph {given or 0}"
    if list(np.atleast_1d(config.node_features)) == feature_values()[0]:
        labels, drawing = draw_molecule(x, edges, inputs["edge_attr"].numpy())
        node = "atom"
    else:
        labels, drawing, node = [str(k) for k in range(len(x))], draw_graph(len(x), edges), "node"
    return Scene("graph", title, node, labels, drawing, verdict=_verdict(trained.model, inputs)), inputs


def _of_smiles(smiles: str, config: Any) -> dict[str, Any]:
    x, edges, bonds = (a.astype(np.int64) for a in molecule_graph(smiles))
    inputs = {"x": x, "edge_index": edges, "edge_attr": bonds}
    if config.position_features:
        walks = config.position_features - config.eigenvectors
        inputs["positions"] = positions(edges, len(x), walks, config.eigenvectors)
    return {name: torch.from_numpy(array) for name, array in inputs.items()}


def _verdict(model: Any, inputs: dict[str, Any]) -> str:
    """The most probable classes, the labels' probabilities, or the values of a regression: the first five."""
    if model.config.level != "graph":
        return ""
    with torch.no_grad():
        logits = model(**inputs).logits[0]
    problem = model.config.problem_type
    if problem == CLASSES:
        chances, classes = logits.softmax(0).sort(descending=True)
        words = [f"class {k} ({p:.2f})" for k, p in zip(classes.tolist(), chances.tolist(), strict=True)]
    else:
        words = [f"{v:.3g}" for v in (logits.sigmoid() if problem == LABELS else logits).tolist()]
    shown = ", ".join(words[:5] + ["…"] * (len(words) > 5))
    return f"{'probabilities' if problem == LABELS else 'predicted'}: {shown}"


def draw_molecule(x: Array, edges: Array, bonds: Array) -> tuple[list[str], dict[str, Any]]:
    """Labels and drawing of a molecule with ogb's features: rdkit's coordinates, strokes for bonds."""
    from rdkit import Chem, rdBase
    from rdkit.Chem import rdDepictor

    table, drawn = Chem.GetPeriodicTable(), Chem.RWMol()
    symbols = [table.GetElementSymbol(int(row[0]) + 1) if row[0] < 118 else "*" for row in x]
    for symbol in symbols:
        drawn.AddAtom(Chem.Atom(symbol))
    kinds = (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE, Chem.BondType.AROMATIC)
    links = [(int(a), int(b), int(bond[0])) for a, b, bond in zip(*edges, bonds, strict=True) if a < b]
    for a, b, kind in links:
        drawn.AddBond(a, b, kinds[min(kind, 3)])
    with rdBase.BlockLogs():
        drawn.UpdatePropertyCache(strict=False)
        rdDepictor.Compute2DCoords(drawn)
    places = drawn.GetConformer().GetPositions()[:, :2] * (1, -1)
    drawing = _drawing(places, [(a, b, (1, 2, 3, 1.5, 1)[min(kind, 4)]) for a, b, kind in links], False)
    return [f"{symbol}{k}" for k, symbol in enumerate(symbols)], drawing | {"symbols": symbols}


def draw_graph(num_nodes: int, edges: Array, places: Array | None = None) -> dict[str, Any]:
    """Drawing of a graph; one whose edges have no reverses has arrows."""
    pairs = {(int(a), int(b)) for a, b in edges.T if a != b}
    both = all((b, a) in pairs for a, b in pairs)
    links = [(a, b, 1) for a, b in sorted(pairs) if a < b or not both]
    places = place(num_nodes, edges) if places is None else places
    loops = sorted({int(a) for a, b in edges.T if a == b})
    return _drawing(places, links, not both) | {"symbols": [str(k) for k in range(num_nodes)], "loops": loops}


def _drawing(places: Array, links: Sequence[tuple[int, int, float]], directed: bool) -> dict[str, Any]:
    places = (places - places.min(0)).round(3).tolist()
    return {"places": places, "links": list(links), "directed": directed, "loops": []}
