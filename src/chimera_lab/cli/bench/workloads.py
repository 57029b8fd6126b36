"""Workloads to measure: a mix, attention, masks, dense inverses. Inputs are drawn by `build`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import chimera_ssm as chimera

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from chimera_ssm import Adjacency, Solver, Topology

Topologies = Callable[[], "tuple[Topology, ...]"]


class Workload(Protocol):
    """A computation to time."""

    def build(self) -> Steps:
        """Draw the inputs, with a fixed seed."""
        ...


@dataclass(frozen=True)
class Steps:
    """A function of tensors, ready to run.

    Attributes:
        function: computes the result.
        leaves: the tensors to differentiate with respect to; none if there is only a forward pass.
        gradient: the gradient of the result.
    """

    function: Callable[[], Tensor]
    leaves: Sequence[Tensor] = ()
    gradient: Tensor | None = None

    def forward(self) -> None:
        """Compute the result."""
        import torch

        with torch.no_grad():
            self.function()

    def forward_backward(self) -> None:
        """Compute the result and the gradient with respect to every leaf."""
        import torch

        torch.autograd.grad(self.function(), self.leaves, self.gradient)


@dataclass(frozen=True)
class Mix:
    """`chimera.mix` in float32, B and C shared by all heads.

    Attributes:
        topologies: what the mix sums over.
        batch: batch size; ``None`` for inputs without a batch dimension, as on a union of graphs.
        sets: for each topology the index of its B and C; if omitted, they are not shared.
        solver: creates the solver to use; the library chooses if omitted.
    """

    topologies: Topologies
    batch: int | None = 1
    heads: int = 12
    state_size: int = 64
    head_size: int = 64
    sets: tuple[int, ...] | None = None
    solver: Callable[[], Solver] | None = None

    def build(self) -> Steps:
        import torch

        generator = torch.Generator().manual_seed(0)
        topologies = self.topologies()
        lead, T = () if self.batch is None else (self.batch,), topologies[0].num_nodes
        sets = range(len(topologies)) if self.sets is None else self.sets

        def leaf(*shape: int) -> Tensor:
            return torch.randn(*lead, *shape, generator=generator).requires_grad_()

        drawn = [adjacency(t, (*lead, self.heads), generator) for t in topologies]
        weights, scales = ([x.requires_grad_() for x in xs] for xs in zip(*drawn, strict=True))
        Cs, Bs = ([leaf(1, T, self.state_size) for _ in range(max(sets) + 1)] for _ in range(2))
        V, gradient = leaf(self.heads, T, self.head_size), leaf(self.heads, T, self.head_size).detach()
        solver = None if self.solver is None else self.solver()
        C, B = [Cs[s] for s in sets], [Bs[s] for s in sets]  # shared tensors: a mix reads them once
        return Steps(
            lambda: chimera.mix(topologies, weights, C, B, V, scales, solver),
            [*weights, *scales, *Cs, *Bs, V],
            gradient,
        )


@dataclass(frozen=True)
class Attention:
    """`scaled_dot_product_attention` on float32 ``[batch, heads, T, head_size]``."""

    num_nodes: int
    batch: int = 1
    heads: int = 12
    head_size: int = 64

    def build(self) -> Steps:
        import torch
        from torch.nn.functional import scaled_dot_product_attention

        generator = torch.Generator().manual_seed(0)
        shape = self.batch, self.heads, self.num_nodes, self.head_size
        q, k, v, gradient = (torch.randn(shape, generator=generator) for _ in range(4))
        leaves = [x.requires_grad_() for x in (q, k, v)]
        return Steps(lambda: scaled_dot_product_attention(q, k, v), leaves, gradient)


@dataclass(frozen=True)
class Masks:
    """All rows of L within each part of a union of equally large graphs."""

    topologies: Topologies
    heads: int

    def build(self) -> Steps:
        topology, weight, _ = _weighted_union(self.topologies, self.heads)
        return Steps(lambda: chimera.SparseLU().resolvent(topology, weight).mask())


@dataclass(frozen=True)
class DenseInverse:
    """The same masks by `torch.linalg.inv` of dense matrices ``[parts · heads, size, size]``, one after the other.

    A batch of them is not inverted correctly on several threads, see `chimera_ssm.ops.dense.torch.lu_factor`.
    """

    topologies: Topologies
    heads: int

    def build(self) -> Steps:
        import torch

        topology, weight, size = _weighted_union(self.topologies, self.heads)
        source, target = topology.edge_index
        matrix = torch.eye(size).repeat(len(topology.parts), self.heads, 1, 1)
        matrix[target // size, :, target % size, source % size] -= weight.T
        return Steps(lambda: torch.stack([torch.linalg.inv(x) for x in matrix.flatten(0, 1)]))


def adjacency(topology: Topology, lead: tuple[int, ...], generator: Generator) -> Adjacency:
    """Bounded random weights ``[*lead, E]`` and factors of B̄, by the parameterisation for this kind of topology."""
    import torch

    def steps(*shape: int, largest: float = 0.1) -> Tensor:
        return 0.001 + (largest - 0.001) * torch.rand(*lead, *shape, topology.num_nodes, generator=generator)

    if isinstance(topology, chimera.GridDAG):
        return chimera.grid_adjacency(topology, steps(topology.num_axes, largest=0.7))
    if topology.is_acyclic:
        return chimera.dag_adjacency(topology, steps())
    build = (
        chimera.undirected_line_adjacency if isinstance(topology, chimera.UndirectedLine) else chimera.graph_adjacency
    )
    return build(topology, steps(), steps(), delta_source=steps())


def _weighted_union(topologies: Topologies, heads: int) -> tuple[Topology, Tensor, int]:
    import torch

    (topology,) = topologies()
    weight = adjacency(topology, (heads,), torch.Generator().manual_seed(0)).weight
    return topology, weight, topology.parts[0].num_nodes
