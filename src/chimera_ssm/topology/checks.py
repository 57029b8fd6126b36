"""Checks of user input: the number of nodes and ``edge_index``."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np
import torch

from chimera_ssm.errors import TopologyError

Array = np.ndarray


def capturing() -> bool:
    """Whether `torch.export` or `torch.jit.trace` captures a program: the values of its inputs are then unknown."""
    return torch.compiler.is_exporting() or torch.jit.is_tracing()


def check_num_nodes(num_nodes: Any) -> int:
    """Require a positive integer; a symbolic size of an exported program stays symbolic."""
    if isinstance(num_nodes, torch.SymInt):
        return num_nodes
    if isinstance(num_nodes, torch.Tensor) and torch.jit.is_tracing():  # where sizes are tensors
        num_nodes = int(num_nodes)
    if isinstance(num_nodes, bool) or not isinstance(num_nodes, (int, np.integer)):
        raise TopologyError(f"the number of nodes must be an integer, found {num_nodes!r}")
    if num_nodes < 1:
        raise TopologyError(f"a topology needs at least one node, found {num_nodes}; leave empty topologies out")
    return index(num_nodes)  # a constant, also where sizes are symbolic in a compiled function


def check_edges(num_nodes: int, edge_index: torch.Tensor | Array | Sequence) -> tuple[Array, Array]:
    """Sources and targets of a valid ``edge_index [2, E]``: integers in range, no duplicates."""
    if isinstance(edge_index, torch.Tensor):
        _require_integers(
            edge_index.numel() == 0 or not (edge_index.is_floating_point() or edge_index.dtype == torch.bool),
            edge_index.dtype,
        )
        edge_index = edge_index.detach().long().cpu().numpy() if edge_index.numel() else np.empty(edge_index.shape, int)
    edges = np.asarray(edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise TopologyError(
            f"edge_index must have shape [2, E], found {list(edges.shape)}; transpose a list of (source, target) pairs "
            "with numpy.transpose, and pass numpy.empty((2, 0), int) for no edges"
        )
    _require_integers(edges.size == 0 or np.issubdtype(edges.dtype, np.integer), edges.dtype)
    source, target = np.array(edges, dtype=np.int64)
    outside = np.flatnonzero((np.minimum(source, target) < 0) | (np.maximum(source, target) >= num_nodes))
    if outside.size:
        e = outside[0]
        raise TopologyError(
            f"edge {e} ({source[e]} → {target[e]}) is out of range: nodes are numbered 0 to {num_nodes - 1}; "
            "correct the edge or raise num_nodes"
        )
    _refuse_duplicates(num_nodes, source, target)
    return source, target


def _require_integers(fulfilled: bool, dtype: object) -> None:
    if not fulfilled:
        raise TopologyError(f"edge_index must hold integers, found {dtype}; convert it with .long()")


def _refuse_duplicates(num_nodes: int, source: Array, target: Array) -> None:
    codes = source * num_nodes + target
    by_code = np.argsort(codes, kind="stable")
    twice = np.flatnonzero(np.diff(codes[by_code]) == 0)
    if twice.size:
        first, second = by_code[twice[0]], by_code[twice[0] + 1]
        raise TopologyError(
            f"edge {source[first]} → {target[first]} appears more than once (columns {first} and {second}); "
            "merge duplicates with edge_index, edge_attr = chimera_ssm.merge_edges(edge_index, edge_attr)"
        )
