"""Drawings of molecules and other graphs: places of the nodes, and the lines between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chimera_lab.show.layout import place

Array = np.ndarray


def draw_molecule(x: Array, edges: Array, bonds: Array) -> tuple[list[str], dict[str, Any]]:
    """Labels and drawing of a molecule with OGB's features; RDKit gives the coordinates, strokes are bonds."""
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
    labels = [f"{symbol}{k}" for k, symbol in enumerate(symbols)]
    return labels, drawing | {"symbols": labels}


def draw_graph(num_nodes: int, edges: Array, places: Array | None = None) -> dict[str, Any]:
    """Drawing of a graph; it has arrows unless every edge has its reverse."""
    pairs = {(int(a), int(b)) for a, b in edges.T if a != b}
    both = all((b, a) in pairs for a, b in pairs)
    links = [(a, b, 1) for a, b in sorted(pairs) if a < b or not both]
    places = place(num_nodes, edges) if places is None else places
    loops = sorted({int(a) for a, b in edges.T if a == b})
    return _drawing(places, links, not both) | {"symbols": [str(k) for k in range(num_nodes)], "loops": loops}


def _drawing(places: Array, links: Sequence[tuple[int, int, float]], directed: bool) -> dict[str, Any]:
    places = (places - places.min(0)).round(3).tolist()
    return {"places": places, "links": list(links), "directed": directed, "loops": []}
