"""`Kind`: how a mixer treats one kind of topology."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from chimera_ssm.adjacency import INJECTIONS, Adjacency
from chimera_ssm.errors import TopologyError
from chimera_ssm.nn.local_conv import LocalConv
from chimera_ssm.topology import Topology


@dataclass(frozen=True)
class Kind(ABC):
    """How a mixer treats one kind of topology.

    Args:
        injection: β of B̄ = β B, ``"hold"``, ``"step"`` or ``"projected"``, see `chimera_ssm.adjacency.injection`; if
            omitted, ``"hold"`` where the row sums of A are at most one whatever the steps, else ``"step"``.

    Attributes:
        streams: whether the mixer has a recurrent form on a directed line.
        learn_decay: whether each head learns a decay, which `terms` then takes as the keyword ``decay [H]``.
        edge_features: whether edges may have features, and thereby their own step sizes.
        edge_weights: whether edges may have weights; `terms` and the convolution then take ``edge_weight``.
        edge_step_scale: factor of the range from which the edges' initial steps are drawn.
    """

    injection: str | None = field(default=None, kw_only=True)

    streams: ClassVar[bool] = False
    edge_features: ClassVar[bool] = False
    edge_weights: ClassVar[bool] = False
    edge_step_scale: ClassVar[float] = 1.0

    learn_decay = False  # not annotated: it would come first among the arguments of a subclass that has it as a field

    def __post_init__(self) -> None:
        if self.injection is None:
            object.__setattr__(self, "injection", "hold" if self.rows_are_bounded else "step")
        if self.injection not in INJECTIONS:
            raise ValueError(f"injection must be one of {INJECTIONS}, found {self.injection!r}")
        if self.injection == "hold" and not self.rows_are_bounded:
            raise ValueError(
                f"hold injection needs row sums of A of at most one, which {self} does not ensure; "
                'use injection="step" or "projected"'
            )

    @property
    def rows_are_bounded(self) -> bool:
        """Whether the row sums of A are at most one, whatever the steps."""
        return getattr(self, "normalize", "mean") in ("mean", "row")

    @property
    def num_injections(self) -> int:
        """Signed injections per node and head: one for each term of the sum if ``injection="projected"``, else none."""
        return len(self.sets) if self.injection == "projected" else 0

    @property
    @abstractmethod
    def num_steps(self) -> int:
        """Step sizes per node and head, S."""

    @property
    def step_scales(self) -> tuple[float, ...]:
        """For each step, the factor of the range from which its initial values are drawn."""
        return (1.0,) * self.num_steps

    @property
    def sets(self) -> tuple[int, ...]:
        """For each term of the mixer's sum, the index of the pair (B, C) that it uses."""
        return (0,)

    @abstractmethod
    def conv(self, channels: int) -> LocalConv:
        """The local convolution of V, B and C."""

    @abstractmethod
    def mismatch(self, topology: Topology) -> str | None:
        """Description of the expected topologies if ``topology`` is not one of them, else ``None``."""

    @abstractmethod
    def terms(
        self,
        topology: Topology,
        steps: Tensor,
        edge_step: Tensor | None,
        node_mask: Tensor | None,
        projected: Tensor | None = None,
    ) -> list[tuple[Topology, Adjacency]]:
        """The terms of the mixer's sum: topologies and their edge weights.

        Shapes: ``steps [Z, H, S, T]``, ``edge_step [Z, H, E]``, ``projected [Z, H, num_injections, T]``.
        """

    def _injection(self, projected: Tensor | None, term: int = 0) -> str | Tensor:
        """The argument ``injection`` of the functions in `chimera_ssm.adjacency`."""
        return str(self.injection) if projected is None else projected[:, :, term]


def check_kind(kind: Kind, topology: Topology) -> None:
    """Raise a `TopologyError` if a mixer of this kind cannot process the topology."""
    if not isinstance(topology, Topology):
        raise TopologyError(f"expected a topology such as Line(8) or Graph(num_nodes, edge_index), found {topology!r}")
    if (expected := kind.mismatch(topology)) is not None:
        raise TopologyError(
            f"a mixer {type(kind).__name__} needs {expected}, found {topology!r}; "
            "Chimera(dim, kind=OnGraph()) takes any topology"
        )
