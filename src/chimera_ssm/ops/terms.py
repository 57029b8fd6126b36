"""Terms of a mix: one topology with its weights, C, B and scale each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from torch import Tensor

from chimera_ssm.ops.autograd import split_args
from chimera_ssm.ops.contract import Resolvent, Solver, exact_resolvent
from chimera_ssm.topology import Topology


class Term:
    """The contribution of one topology to a mix: ``weight [Z, H, E]``, ``C, B [Z, G, T, N]``, ``scale [Z, H, T]``.

    Args:
        topology: T nodes and E edges.
        weight: of the edges.
        C: read from states.
        B: written to states.
        scale: β; 1 if ``None``.
        algorithm: that of the resolvent.
        solver: makes the resolvent; if omitted, the algorithm does.
    """

    def __init__(
        self,
        topology: Topology,
        weight: Tensor,
        C: Tensor,
        B: Tensor,
        scale: Tensor | None,
        algorithm: str,
        solver: Solver | None = None,
    ):
        self.topology, self.weight, self.C, self.B, self.scale = topology, weight, C, B, scale
        self.algorithm, self.solver = algorithm, solver

    @cached_property
    def resolvent(self) -> Resolvent:
        """L, computed when it is first needed; fused kernels do without it."""
        weight = self.weight.flatten(0, 1)
        if self.solver is None:
            return exact_resolvent(self.algorithm, self.topology, weight)
        return self.solver.resolvent(self.topology, weight)


def unpack_terms(terms: Sequence[Term], V: Tensor) -> tuple[list[Topology], list[Tensor]]:
    """Topologies; and weights ``[Z, H, E]``, scales, Cs and Bs of all terms, one after the other."""
    scales = [term.weight.new_ones(V.shape[:3]) if term.scale is None else term.scale for term in terms]
    tensors = [*(term.weight for term in terms), *scales, *(term.C for term in terms), *(term.B for term in terms)]
    return [term.topology for term in terms], tensors


def pack_terms(algorithm: str, topologies: Sequence[Topology], tensors: tuple[Tensor, ...]) -> list[Term]:
    """The reverse of `unpack_terms`."""
    arguments = zip(topologies, *split_args(tensors), strict=True)
    return [Term(topology, weight, C, B, scale, algorithm) for topology, weight, scale, C, B in arguments]
