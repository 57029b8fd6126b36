"""Edge weights of acyclic graphs (paper, section 4.1)."""

from __future__ import annotations

import torch
from torch import Tensor

from chimera_ssm.adjacency.injection import inject
from chimera_ssm.adjacency.steps import (
    Adjacency,
    at,
    check_edge_steps,
    check_floating,
    check_mask,
    check_steps,
    edges_alive,
    ends,
    sum_at,
)
from chimera_ssm.errors import TopologyError
from chimera_ssm.topology import Line, Topology

STEPS = ("mean", "target")
NORMALIZERS = ("mean", "sqrt")


def dag_adjacency(
    topology: Topology,
    delta: Tensor,
    *,
    edge_step: Tensor | None = None,
    step: str = "mean",
    normalize: str = "mean",
    injection: str | Tensor = "step",
    decay: Tensor | None = None,
    node_mask: Tensor | None = None,
) -> Adjacency:
    """Selective weights on any acyclic graph.

        A_ij = exp(−a Δ_ij) / n_i
        "step": B̄_i = (Σ_{j∈p(i)} Δ_ij) / n_i · B_i        "hold": B̄_i = (1 − Σ_j A_ij) B_i

    with Δ_ij the mean of Δ_i, Δ_j and, if given, the edge's own step. A node without in-edges injects with
    its own step, ``B̄_i = Δ_i B_i``; held, with 1.

    Args:
        topology: any acyclic topology.
        delta: Δ > 0, ``[..., H, T]``.
        edge_step: Δ' > 0 of each edge, ``[..., H, E]``; only with ``step="mean"``.
        step: ``"mean"``, or ``"target"`` for Δ_ij = Δ_i.
        normalize: ``"mean"``, n_i = |p(i)|: every entry of L stays between 0 and 1 on any DAG; or ``"sqrt"``,
            n_i = √|p(i)|, the paper's: it diverges where many paths join, as on grids.
        injection: ``"step"``, ``"hold"`` or β ``[..., H, T]``, see `chimera_ssm.adjacency.injection`.
        decay: a > 0 of each head, ``[H]``: −A of Mamba-2; 1 if omitted.
        node_mask: True where there is a node, ``[..., T]``. A masked node loses its edges and injects nothing.
    """
    delta = check_steps("delta", delta, topology)
    source, target = ends(topology, delta.device)
    return _adjacency(topology, at(delta, target), at(delta, source), delta, edge_step, step, normalize,
                      injection, node_mask, _check_decay(decay, delta))  # fmt: skip


def grid_adjacency(
    topology: Topology,
    delta: Tensor,
    *,
    step: str = "mean",
    normalize: str = "mean",
    injection: str | Tensor = "step",
    node_mask: Tensor | None = None,
) -> Adjacency:
    """As `dag_adjacency`, on a `GridDAG` or a batch of them, with a step per axis.

    Args:
        topology: a `GridDAG`, or a batch of them with equally many axes.
        delta: Δ > 0, ``[..., H, axes, T]``; a corner without in-edges injects with the mean over axes.
        step: as in `dag_adjacency`.
        normalize: as in `dag_adjacency`.
        injection: as in `dag_adjacency`.
        node_mask: as in `dag_adjacency`.
    """
    axes = topology.cached(num_axes)
    if delta.dim() < 3 or delta.shape[-2] != axes:
        raise ValueError(f"delta must have shape [..., H, {axes}, T] for {topology!r}, found {list(delta.shape)}")
    delta = check_steps("delta", delta, topology)
    source, target = ends(topology, delta.device)
    flat, start = delta.flatten(-2), topology.cached(edge_axis, delta.device) * topology.num_nodes
    return _adjacency(
        topology,
        at(flat, start + target),
        at(flat, start + source),
        delta.mean(-2),
        None,
        step,
        normalize,
        injection,
        node_mask,
    )


def num_axes(topology: Topology) -> int:
    """Number of axes of a grid or a batch of grids."""
    axes = {getattr(part, "num_axes", 0) for part in topology.parts}
    if len(axes) != 1 or 0 in axes:
        raise TopologyError(
            f"steps per axis need a grid, or a batch of grids with equally many axes, found {topology!r}; "
            "use dag_adjacency for other DAGs"
        )
    return axes.pop()


def edge_axis(topology: Topology, device: torch.device) -> Tensor:
    """Axis of each edge of a grid or a batch of grids, ``[E]``."""
    return torch.cat([part.tensors("edge_axis", device) for part in topology.parts])


def paths_join(topology: Topology) -> bool:
    """Whether a node has more than one in-edge."""
    if topology.is_traced:
        return not isinstance(topology, Line)
    return bool((topology.in_degree > 1).any())


def _adjacency(
    topology: Topology,
    at_target: Tensor,
    at_source: Tensor,
    own: Tensor,
    edge_step: Tensor | None,
    step: str,
    normalize: str,
    injection: str | Tensor,
    node_mask: Tensor | None,
    decay: Tensor | None = None,
) -> Adjacency:
    _check_options(topology, edge_step, step, normalize)
    node_mask = check_mask(node_mask, topology)
    alive = edges_alive(topology, node_mask)
    _, target = ends(topology, own.device)
    steps = [at_target] if step == "target" else [at_target, at_source]
    if edge_step is not None:
        steps.append(check_edge_steps(edge_step, topology))
    delta = sum(steps[1:], steps[0]) / len(steps)
    weight = torch.exp(-delta if decay is None else -decay.unsqueeze(-1) * delta)
    if alive is None:
        degree = topology.tensors("in_degree", own.device)
    else:
        degree = sum_at(alive.long(), target, topology.num_nodes)
        delta, weight = delta.masked_fill(~alive, 0), weight.masked_fill(~alive, 0)
    divisor = None
    if topology.cached(paths_join):  # otherwise every n_i is one
        divisor = degree.clamp(min=1).to(own.dtype)
        divisor = divisor.sqrt() if normalize == "sqrt" else divisor
        weight = weight / at(divisor, target)

    def step_injection() -> Tensor:
        total = sum_at(delta, target, topology.num_nodes)
        return torch.where(degree > 0, total if divisor is None else total / divisor, own)

    return Adjacency(weight, inject(injection, step_injection, topology, weight, node_mask, normalize == "mean"))


def _check_decay(decay: Tensor | None, delta: Tensor) -> Tensor | None:
    """A decay ``[H]`` for steps ``[..., H, T]``, as float32 at least."""
    if decay is None:
        return None
    if decay.shape != delta.shape[-2:-1]:
        raise ValueError(
            f"decay must have shape [{delta.shape[-2]}], a number for each head of delta, found {list(decay.shape)}"
        )
    return check_floating("decay", decay)


def _check_options(topology: Topology, edge_step: Tensor | None, step: str, normalize: str) -> None:
    if not topology.is_acyclic:
        raise TopologyError(f"a DAG parameterisation needs an acyclic topology, found {topology!r}; use its dags()")
    if step not in STEPS:
        raise ValueError(f"step must be one of {STEPS}, found {step!r}")
    if normalize not in NORMALIZERS:
        raise ValueError(f"normalize must be one of {NORMALIZERS}, found {normalize!r}")
    if edge_step is not None and step != "mean":
        raise ValueError("edge_step is averaged with the steps of the edge's ends: it needs step='mean'")
