"""Mixes on directed lines by Triton kernels, in chunks: see `chimera_ssm.ops.scan.triton_kernels`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton
from torch import Tensor

from chimera_ssm.gpu.launch import launch, triton_operator
from chimera_ssm.gpu.matmul import low_dtype, precision, uses_tensor_cores
from chimera_ssm.ops.autograd import double_backward_via, in_float32, save_arguments, split_args, values_wanted
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.ops.scan import triton_kernels as kernels
from chimera_ssm.ops.scan.torch import mix_tensors
from chimera_ssm.ops.terms import Term, unpack_terms
from chimera_ssm.topology import Topology

#: Places of a chunk, and warps of a program.
_LONGEST, _WARPS = 32, 8
#: Programs that keep a GPU busy: heads of a group are divided among programs up to this number.
_PROGRAMS = 512
#: Arrays of a `ChunkPlan`.
_TABLES = 6
#: Numbers of a state that one program passes from chunk to chunk.
_BLOCK = 256


@dataclass(frozen=True)
class ChunkPlan:
    """Directed paths in chunks, none of which belongs to two paths; integers of 32 bits.

    Attributes:
        order: the node at each place, ``[T]``.
        ahead: the edge into each place, ``[T]``; E where there is none.
        start: the first place of each chunk.
        stop: the place after its last.
        part: the part of the topology that each path belongs to.
        first_chunk: the first chunk of each path, and the number of chunks.
    """

    order: np.ndarray
    ahead: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    part: np.ndarray
    first_chunk: np.ndarray


def chunk_plan(topology: Topology, size: int) -> ChunkPlan:
    """The paths of a topology in chunks of at most ``size`` places."""
    plan, T = topology.directed_paths, topology.num_nodes
    assert plan is not None
    order = np.arange(T) if plan.nodes is None else np.asarray(plan.nodes)
    ahead = np.asarray(plan.ahead)
    firsts = np.flatnonzero(ahead == topology.num_edges)
    ends = np.append(firsts[1:], T)
    start = np.concatenate([np.arange(a, b, size) for a, b in zip(firsts, ends, strict=True)])
    stop = np.minimum(start + size, np.repeat(ends, -(-(ends - firsts) // size)))
    first_chunk = np.append(np.searchsorted(start, firsts), len(start))
    part = np.repeat(np.arange(topology.num_parts), topology.part_sizes)[order[firsts]]
    arrays = order, ahead, start, stop, part, first_chunk
    return ChunkPlan(*(x.astype(np.int32) for x in arrays))


def chunk_tables(topologies: list[Topology], device: torch.device) -> tuple[list[Tensor], list[int]]:
    """The arrays of each topology's `ChunkPlan` on a device, and the size of its chunks."""
    tables, sizes = [], []
    for topology in topologies:
        size = min(_LONGEST, max(16, triton.next_power_of_2(topology.longest_path + 1)))
        plan = topology.cached(chunk_plan, size, device=device)
        tables += [plan.order, plan.ahead, plan.start, plan.stop, plan.part, plan.first_chunk]
        sizes.append(size)
    return tables, sizes


def mix_by_state(terms: list[Term], V: Tensor, exclude_diagonal: bool = False) -> Tensor:
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V``; if ``exclude_diagonal``, all terms but the first without the diagonal of L."""
    topologies, tensors = unpack_terms(terms, V)
    y, _ = _ScanMix.apply(V, None, topologies, exclude_diagonal, *tensors)
    return y


def mix_with_states(term: Term, V: Tensor, initial: Tensor | None) -> tuple[Tensor, Tensor]:
    """The mix of directed lines, one for each part, with states ``[Z, H, parts, N, P]`` that enter and leave them."""
    if initial is None:
        initial = V.new_zeros(*V.shape[:2], term.topology.num_parts, term.C.shape[3], V.shape[3], dtype=torch.float32)
    topologies, tensors = unpack_terms([term], V)
    return _ScanMix.apply(V, initial, topologies, False, *tensors)


class _ScanMix(torch.autograd.Function):
    """The mix, and the states that leave if states enter."""

    @staticmethod
    def forward(
        ctx: Any, V: Tensor, initial: Tensor | None, topologies: list[Topology], exclude: bool, *tensors: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        save_arguments(ctx, (V, initial, topologies, exclude, *tensors))
        if not values_wanted():
            return torch.empty_like(V), None if initial is None else torch.empty_like(initial)
        arguments = *map(list, split_args(tensors)), *chunk_tables(topologies, V.device), exclude
        y, leaving = _forward_operator(V, initial, *arguments)
        return y, None if initial is None else leaving

    @staticmethod
    @double_backward_via(in_float32(mix_tensors))
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        (V, initial, _, _, *tensors), (topologies, exclude) = ctx.saved_tensors, ctx.others[2:4]
        arguments = *map(list, split_args(tuple(tensors))), *chunk_tables(topologies, V.device), exclude
        dV, dinitial, *gradients = _backward_operator(*grads, V, initial, *arguments)
        return dV, None if initial is None else dinitial, None, None, *gradients


def scan_forward(
    V: Tensor,
    initial: Tensor | None,
    weights: list[Tensor],
    scales: list[Tensor],
    Cs: list[Tensor],
    Bs: list[Tensor],
    tables: list[Tensor],
    sizes: list[int],
    exclude: bool,
) -> tuple[Tensor, Tensor]:
    """``y``, and the states that leave; these are empty without initial states."""
    V = V.contiguous()
    y = torch.empty_like(V, dtype=_sum_dtype(weights, V))
    leaving = V.new_empty(0 if initial is None else initial.shape, dtype=torch.float32)
    for d in range(len(weights)):
        term = _Chunks(V, weights[d], scales[d], Cs[d], Bs[d], tables[_TABLES * d : _TABLES * (d + 1)], sizes[d])
        states = None
        if term.has_states or initial is not None:
            (states,) = term.states(None, initial, leaving)
        term.launch_by_group(
            kernels.chunk_outputs, term.blocks_p, *term.inputs, states, y, STATES=states is not None, ADD=d > 0,
            STRICT=exclude and d > 0,
        )  # fmt: skip
    return y.to(V.dtype), leaving


def scan_backward(
    grad: Tensor,
    dleaving: Tensor | None,
    V: Tensor,
    initial: Tensor | None,
    weights: list[Tensor],
    scales: list[Tensor],
    Cs: list[Tensor],
    Bs: list[Tensor],
    tables: list[Tensor],
    sizes: list[int],
    exclude: bool,
) -> list[Tensor]:
    """Gradients of V and of the initial states, then of all weights, scales, Cs and Bs."""
    V, grad = V.contiguous(), grad.contiguous()
    dV = torch.empty_like(V, dtype=_sum_dtype(weights, V))
    ends = leaving = None
    if initial is not None and dleaving is not None:
        ends = torch.stack([initial, dleaving])
        leaving = torch.empty_like(ends)
    gradients: list[tuple[Tensor, ...]] = []
    for d in range(len(weights)):
        term = _Chunks(V, weights[d], scales[d], Cs[d], Bs[d], tables[_TABLES * d : _TABLES * (d + 1)], sizes[d])
        states = adjoints = None
        if term.has_states or ends is not None:
            states, adjoints = term.states(grad, ends, leaving)
        of_terms = term.gradients(grad, states, adjoints, dV, ADD=d > 0, STRICT=exclude and d > 0)
        wanted = weights[d], scales[d], Cs[d], Bs[d]
        gradients.append(tuple(x.view(w.shape).to(w.dtype) for x, w in zip(of_terms, wanted, strict=True)))
    dinitial = V.new_empty(0) if leaving is None else leaving[1].clone()
    return [dV.to(V.dtype), dinitial, *(x for kind in zip(*gradients, strict=True) for x in kind)]


def _sum_dtype(weights: list[Tensor], V: Tensor) -> torch.dtype:
    """That in which terms are added up; a single term is written as it will be returned."""
    return V.dtype if len(weights) == 1 else torch.float32


class _Chunks:
    """One term of a mix, in chunks.

    Args:
        V: ``[Z, H, T, P]``.
        weight: ``[Z, H, E]``.
        scale: ``[Z, H, T]``.
        C: ``[Z, G, T, N]``.
        B: ``[Z, G, T, N]``.
        tables: the arrays of its `ChunkPlan`.
        size: of a chunk, a power of two.
    """

    def __init__(self, V: Tensor, weight: Tensor, scale: Tensor, C: Tensor, B: Tensor, tables: list[Tensor], size: int):
        (Z, H, self.T, self.P), (_, G, _, self.N) = V.shape, C.shape
        self.heads, self.groups, self.share, self.E = Z * H, Z * G, H // G, weight.shape[-1]
        self.V, self.weight, self.scale, self.C, self.B = (x.contiguous() for x in (V, weight, scale, C, B))
        *self.places, self.part, self.first_chunk = tables
        self.chunks, self.paths = self.places[2].shape[0], self.part.shape[0]
        slots = max(1, min(self.share, _PROGRAMS // (self.groups * self.chunks)))
        self.slots = next(n for n in range(slots, 0, -1) if self.share % n == 0)
        largest = 64 if max(self.N, self.P) <= 64 and uses_tensor_cores(V.dtype) else 32  # what fits into registers
        block_n, block_p = (min(largest, max(16, triton.next_power_of_2(n))) for n in (self.N, self.P))
        self.blocks_n, self.blocks_p = -(-self.N // block_n), -(-self.P // block_p)
        self.constants = {
            "Q": size, "NB": self.blocks_n, "BN": block_n, "PB": self.blocks_p, "BP": block_p,
            "LOW": low_dtype(V.dtype), "PREC": precision(), "num_warps": _WARPS, "num_stages": 1,
        }  # fmt: skip

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that kernels read first."""
        return self.weight, self.scale, self.C, self.B, self.V

    @property
    def has_states(self) -> bool:
        """Whether states pass from chunk to chunk."""
        return self.chunks > self.paths

    def states(self, grad: Tensor | None, entering: Tensor | None, leaving: Tensor | None) -> Tensor:
        """The state that enters each chunk, ``[1, heads, chunks, N, P]``.

        With ``grad`` ``[2, …]``: that, and the gradient of the state that leaves each chunk.

        Args:
            grad: of y.
            entering: states that enter the paths; with ``grad`` a pair, and the gradients of those that leave.
            leaving: to be filled with the states that leave, and the gradients of those that enter.
        """
        sides, size = 1 if grad is None else 2, self.N * self.P
        shape = sides, self.heads, self.chunks, self.N, self.P
        states = torch.empty(shape, dtype=torch.float32, device=self.V.device)
        decay = torch.empty(shape[1:3], dtype=torch.float32, device=self.V.device)
        numbers = self.T, self.E, self.N, self.P, self.chunks, self.share
        launch(
            kernels.chunk_states, (self.chunks, self.heads, sides * self.blocks_n * self.blocks_p),
            *self.inputs, self.V if grad is None else grad, states, decay, *self.places, *numbers, **self.constants,
        )  # fmt: skip
        launch(
            kernels.pass_states, (-(-size // _BLOCK), self.paths, sides * self.heads),
            states, decay, None if entering is None else entering.contiguous(), leaving, self.part, self.first_chunk,
            self.heads, self.chunks, size, self.paths, ENDS=entering is not None, BLOCK=_BLOCK,
        )  # fmt: skip
        return states

    def gradients(
        self, grad: Tensor, states: Tensor | None, adjoints: Tensor | None, dV: Tensor, ADD: bool, STRICT: bool
    ) -> tuple[Tensor, ...]:
        """Gradients of weight, scale, C and B; that of V is written to ``dV``, or added to it."""
        blocks_n, blocks_p = self.blocks_n, self.blocks_p
        shapes = {
            "dw": (self.heads, self.E),
            "pair": (2, self.slots, self.groups, self.T, self.N),  # a sum for each program of a group
            "dscale": (blocks_p, self.heads, self.T),  # and for each block of channels or states
            "written": (blocks_p, self.heads, self.T),
            "read": (blocks_n, self.heads, self.T),
        }
        made = {name: torch.empty(shape, dtype=torch.float32, device=dV.device) for name, shape in shapes.items()}
        if self.slots == 1:  # complete sums are written as they will be returned
            made["pair"] = torch.empty(shapes["pair"], dtype=self.C.dtype, device=dV.device)
        dw, pair, dscale, written, read = made.values()
        given, numbers, has_states = (*self.inputs, grad), {"heads": self.heads}, {"STATES": states is not None}
        self.launch_by_group(
            kernels.chunk_value_gradients, blocks_p, *given, adjoints, dscale, dV, written,
            ADD=ADD, STRICT=STRICT, **has_states, **numbers,
        )  # fmt: skip
        self.launch_by_group(
            kernels.chunk_key_gradients, 2 * blocks_n, *given, states, adjoints, *pair, read,
            groups=self.groups, STRICT=STRICT, **has_states, **numbers,
        )  # fmt: skip
        self.launch_by_group(
            kernels.chunk_weight_gradients, 1, *given, states, adjoints, dw, read, written, **has_states, **numbers
        )
        return dw, _summed(dscale, 0, torch.float32), *_summed(pair, 1, self.C.dtype)

    def launch_by_group(self, kernel: Any, blocks: int, *tensors: Tensor | None, **constants: Any) -> None:
        """Launch a kernel for each chunk, each share of the heads of a group, and each block."""
        numbers = self.T, self.E, self.N, self.P, self.chunks, self.share, self.share // self.slots
        grid = self.chunks, self.groups * self.slots, blocks
        launch(kernel, grid, *tensors, *self.places, *numbers, **constants, **self.constants)


_forward_operator, _backward_operator = triton_operator(scan_forward), triton_operator(scan_backward)


def _summed(x: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    return x.squeeze(dim) if x.shape[dim] == 1 else x.sum(dim, dtype=dtype)


#: A line of one chunk is computed through its mask, a longer one through states as well.
OPERATIONS = {
    "mix_by_mask": Operation(mix_by_state, takes_half=True),
    "mix_by_state": Operation(mix_by_state, takes_half=True),
    "mix_with_states": Operation(mix_with_states),
}
