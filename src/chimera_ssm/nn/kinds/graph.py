"""Any graph, with the resolvent over all its paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chimera_ssm.adjacency import graph_adjacency
from chimera_ssm.nn.kinds.base import Kind
from chimera_ssm.nn.local_conv import LocalConv, NeighbourConv
from chimera_ssm.topology import Topology

AGGREGATES = ("sum", "mean")


@dataclass(frozen=True)
class OnGraph(Kind):
    """Any topology, as a general graph: the exact resolvent over all its paths.

    Args:
        gamma: bound of the row sums of A, between 0 and 1.
        directional: whether the two ends of an edge have separate steps.
        normalize: ``"row"``, or ``"column"`` as in the authors' code, see `graph_adjacency`.
        shared_bias: whether all steps of a head share one bias, as in the authors' code; Ψ then starts in their range.
        aggregate: ``"sum"`` or ``"mean"``, how the local convolution combines neighbours, see `NeighbourConv`.
    """

    gamma: float = 0.95
    directional: bool = True
    normalize: str = "row"
    shared_bias: bool = False
    aggregate: str = "sum"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aggregate not in AGGREGATES:
            raise ValueError(f"aggregate must be one of {AGGREGATES}, found {self.aggregate!r}")

    streams: ClassVar[bool] = True
    edge_features: ClassVar[bool] = True
    edge_weights: ClassVar[bool] = True
    #: Only differences of steps within a row matter; with steps near zero all edges would have the same weight.
    edge_step_scale: ClassVar[float] = 100.0

    @property
    def num_steps(self) -> int:
        return 3 if self.directional else 2

    @property
    def step_scales(self) -> tuple[float, ...]:
        if self.shared_bias:
            return (1.0,) * self.num_steps
        # Δ¹ also scales the step injection, whose gain would otherwise be 0.1; row sums hardly depend on it.
        delta = 3.0 if self.injection == "step" else 1.0
        # Ψ starts between 0.1 and 10, so that row sums of A are between γ/2 and nearly γ. In the range of the steps
        # all would be near γ/2, influence would decrease threefold with each hop, and nothing beyond 3 hops is learned.
        return (delta, 100.0, 1.0)[: self.num_steps]

    def conv(self, channels: int) -> LocalConv:
        return NeighbourConv(channels, self.aggregate)

    def mismatch(self, topology: Topology) -> str | None:
        return None

    def terms(self, topology, steps, edge_step, node_mask, projected=None, edge_weight=None):
        delta, psi = steps[:, :, 0], steps[:, :, 1]
        weights = graph_adjacency(
            topology,
            delta,
            psi,
            delta_source=steps[:, :, 2] if self.directional else None,
            edge_step=edge_step,
            gamma=self.gamma,
            normalize=self.normalize,
            injection=self._injection(projected),
            node_mask=node_mask,
            edge_weight=None if edge_weight is None else edge_weight.unsqueeze(-2),
        )
        return [(topology, weights)]
