"""Lines: directed, in both directions, and undirected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chimera_ssm.adjacency import dag_adjacency, undirected_line_adjacency
from chimera_ssm.adjacency.dag import STEPS
from chimera_ssm.nn.kinds.base import Kind
from chimera_ssm.nn.local_conv import LocalConv
from chimera_ssm.nn.window_conv import WindowConv
from chimera_ssm.topology import Line, Topology, UndirectedLine


@dataclass(frozen=True)
class OnLine(Kind):
    """A directed line, such as a time series. Causal; has a recurrent form.

    Args:
        step: ``"mean"``, or ``"target"`` for Mamba-2's steps.
        learn_decay: whether each head learns a in A_ij = exp(−a Δ_ij), which is −A of Mamba-2; otherwise a = 1.
        width: nodes in the window of the convolution, including the node itself.

    ``OnLine(step="target", learn_decay=True, injection="step")`` is Mamba-2.
    """

    step: str = "mean"
    learn_decay: bool = False
    width: int = 4

    streams: ClassVar[bool] = True
    num_steps: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step not in STEPS:
            raise ValueError(f"step must be one of {STEPS}, found {self.step!r}")
        if self.width < 1:
            raise ValueError(
                f"the window of the convolution contains at least the node itself, found width={self.width}"
            )

    def conv(self, channels: int) -> LocalConv:
        return WindowConv(channels, width=self.width, causal=True)

    def mismatch(self, topology: Topology) -> str | None:
        return None if topology.cached(_all_are, Line) else "a Line or a batch of lines"

    def terms(self, topology, steps, edge_step, node_mask, projected=None, decay=None):
        weights = dag_adjacency(
            topology,
            steps[:, :, 0],
            step=self.step,
            injection=self._injection(projected),
            decay=decay,
            node_mask=node_mask,
        )
        return [(topology, weights)]


@dataclass(frozen=True)
class OnTwoLines(Kind):
    """An undirected line as a forward and a backward line with separate B, C and steps."""

    num_steps: ClassVar[int] = 2
    sets: ClassVar[tuple[int, ...]] = (0, 1)

    def conv(self, channels: int) -> LocalConv:
        return WindowConv(channels, width=7)

    def mismatch(self, topology: Topology) -> str | None:
        return None if topology.cached(_all_are, UndirectedLine) else "an UndirectedLine or a batch of them"

    def terms(self, topology, steps, edge_step, node_mask, projected=None):
        return [
            (line, dag_adjacency(line, steps[:, :, d], injection=self._injection(projected, d), node_mask=node_mask))
            for d, line in enumerate(topology.dags())
        ]


@dataclass(frozen=True)
class OnUndirectedLine(Kind):
    """An undirected line with the exact resolvent over all its paths (the paper's UG).

    Args:
        gamma: bound of the normalisation, at most 0.999.
    """

    gamma: float = 0.99

    num_steps: ClassVar[int] = 3
    #: With the paper's range of steps the gain would be 0.03, because rows sum to at most γ rather than to 1 − Δ.
    step_scales: ClassVar[tuple[float, ...]] = (20.0, 20.0, 20.0)
    rows_are_bounded: ClassVar[bool] = False

    def conv(self, channels: int) -> LocalConv:
        return WindowConv(channels, width=7)

    def mismatch(self, topology: Topology) -> str | None:
        return None if topology.cached(_all_are, UndirectedLine) else "an UndirectedLine or a batch of them"

    def terms(self, topology, steps, edge_step, node_mask, projected=None):
        delta, delta_source, psi = steps.unbind(2)
        weights = undirected_line_adjacency(
            topology,
            delta,
            psi,
            delta_source=delta_source,
            gamma=self.gamma,
            injection=self._injection(projected),
            node_mask=node_mask,
        )
        return [(topology, weights)]


def _all_are(topology: Topology, kind: type) -> bool:
    return all(isinstance(part, kind) for part in topology.parts)
