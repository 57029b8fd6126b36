"""How a mix through masks is laid out in memory: blocks of parts, chunks of heads, scratch memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from threading import local
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.cpu.simd import WIDTH
from chimera_ssm.cpu.workspace import workspace
from chimera_ssm.ops.dense_blocks import join, split
from chimera_ssm.ops.sweep.kernels_mask import AdjointPlan, MaskPlan
from chimera_ssm.ops.sweep.plan import sweep_plan
from chimera_ssm.topology import Topology

#: Elements of M at once: enough to keep threads busy, few enough to stay in a cache.
_MASK_ELEMENTS = 1 << 21
#: Multiplications that take less time than a few calls of PyTorch.
_SMALL_WORK = 1_000_000


class _Scratch(local):
    """Memory that each thread reuses from call to call: page faults of new memory cost more than the computation."""

    def __init__(self) -> None:
        self.kept: dict[Any, Tensor] = {}
        self.views: dict[Any, Tensor] = {}

    def get(self, name: str, dtype: torch.dtype, *shape: int) -> Tensor:
        """Uninitialized memory, the same at every call unless it is large."""
        view = self.views.get((name, dtype, shape))
        return self._make(name, dtype, shape) if view is None else view

    def _make(self, name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        size = prod(shape)
        if size > _MASK_ELEMENTS:
            return workspace.empty(shape, dtype)
        if (name, dtype) not in self.kept or self.kept[name, dtype].numel() < size or len(self.views) > 64:
            self.views.clear()  # they refer to the old memory
            with torch.inference_mode(False):  # training may use it next
                self.kept[name, dtype] = torch.empty(size, dtype=dtype)
        self.views[name, dtype, shape] = view = self.kept[name, dtype][:size].view(shape)
        return view


scratch = _Scratch()


@dataclass(frozen=True)
class Chunk:
    """Heads that are processed at once.

    Attributes:
        start: the first head.
        heads: their number.
        groups: slice of blocks of a B or C: those of their groups.
        blocks: slice of blocks of V.
        whole: whether there is no other chunk.
    """

    start: int
    heads: int
    groups: slice
    blocks: slice
    whole: bool

    def of(self, x: Tensor) -> Tensor:
        """Blocks of these heads, of all ``[heads·parts, ·, ·]``."""
        return x if self.whole else x[self.blocks]

    def of_groups(self, x: Tensor) -> Tensor:
        """Blocks of their groups, of all ``[groups·parts, ·, ·]``."""
        return x if self.whole else x[self.groups]


class Layout:
    """The layout of a mix through masks for given shapes.

    Rows and columns are counted within each part of the topologies, columns in whole vectors:
    ``V [heads·parts, side, P]``, ``M [heads·parts, side, columns]``, each ``C, B [groups·parts, side, N]``. A pair
    is a C with its B; pairs that are used twice are there once.

    Args:
        topologies: on the same nodes.
        V: shape of V, ``[Z, H, T, P]``.
        C: shape of C and B, ``[Z, G, T, N]``.
        first_use: for each topology the first one that has the same C and B.
    """

    def __init__(self, topologies: list[Topology], V: torch.Size, C: torch.Size, first_use: tuple[int, ...]):
        self.topologies, self.shape_of_C = topologies, C
        self.plan = topologies[0].tensors("block_plan", torch.device("cpu"))
        self.parts, self.side = self.plan.shape
        self.columns = -(-self.side // WIDTH) * WIDTH
        self.heads, self.groups = V[0] * V[1], C[0] * C[1]
        self.share = self.heads // self.groups
        self.pairs = sorted(set(first_use))
        self.which = np.array([self.pairs.index(d) for d in first_use])
        rows, N, P = self.parts * self.side, C[3], V[3]
        work = rows * self.columns * (self.heads * (P + 4 * len(topologies)) + self.groups * len(self.pairs) * N)
        fits = self.plan.trivial and self.parts == 1 and self.side >= 4 and N % WIDTH == 0 and P % WIDTH == 0
        self.small = fits and work < _SMALL_WORK
        self.products_are_small = (
            not self.small and len(self.pairs) * self.groups * self.columns <= 2 * self.heads * V[3]
        )
        self.chunks = self._chunks()

    def _chunks(self) -> list[Chunk]:
        step = max(1, _MASK_ELEMENTS // (self.share * self.parts * self.side * self.columns))
        chunks = []
        for first in range(0, self.groups, step):
            last = min(first + step, self.groups)
            groups, blocks = (slice(first * each * self.parts, last * each * self.parts) for each in (1, self.share))
            chunks.append(Chunk(first * self.share, (last - first) * self.share, groups, blocks, step >= self.groups))
        return chunks

    def joined(self, tensors: tuple[Tensor, ...]) -> Tensor:
        """``[pairs·Z, G, T, N]`` of each pair's C or B."""
        found = [tensors[d] for d in self.pairs]
        return torch.cat(found) if len(found) > 1 else found[0]

    def rows(self, x: Tensor) -> Tensor:
        """``[..., T, K]`` → ``[·, side, K]``."""
        return (x if self.plan.trivial else split(self.plan, x)).reshape(-1, self.side, x.shape[-1])

    def nodes(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The reverse."""
        return (x if self.plan.trivial else join(self.plan, x.view(-1, self.parts, *x.shape[1:]))).view(shape)

    def widened(self, name: str, x: Tensor) -> Tensor:
        """``[·, side, K]`` → ``[·, columns, K]``, with rows of zeros."""
        if self.side == self.columns:
            return x
        wide = scratch.get(name, x.dtype, x.shape[0], self.columns, x.shape[2])
        wide[:, : self.side] = x
        wide[:, self.side :] = 0
        return wide

    def narrowed(self, x: Tensor) -> Tensor:
        """``[·, side, columns]`` → ``[·, side, side]``."""
        return x if self.side == self.columns else x[..., : self.side]

    @cached_property
    def forward_plan(self) -> MaskPlan:
        """The topologies as `masks_forward` takes them."""
        plans = [t.cached(sweep_plan, False) for t in self.topologies]
        names = "node", "row", "column", "begin", "edge", "source_slot", "slot"
        slots = max(p.slots for p in plans)
        low, high = _stack_plans(plans, "low"), _stack_plans(plans, "high")
        return MaskPlan(*(_stack_plans(plans, n) for n in names), slots, low, high, self.which)

    @cached_property
    def backward_plan(self) -> AdjointPlan:
        """The topologies as `masks_backward` takes them."""
        plans = [t.cached(sweep_plan, False) for t in self.topologies]
        backs = [t.flip().cached(sweep_plan, False) for t in self.topologies]
        names = "node", "row", "column", "begin", "edge", "source_step", "low", "high"
        steps = np.stack([np.argsort(p.node)[b.node] for p, b in zip(plans, backs, strict=True)])
        back_names = "begin", "edge", "source_slot", "slot"
        back_arrays = (_stack_plans(backs, n) for n in back_names)
        slots = max(b.slots for b in backs)
        return AdjointPlan(*(_stack_plans(plans, n) for n in names), steps, *back_arrays, slots, self.which)


def _stack_plans(plans: list[Any], name: str) -> Any:
    """An array of each plan, ``[D, ·]``, padded with zeros."""
    arrays = [getattr(p, name) for p in plans]
    size = max(1, *(a.size for a in arrays))
    return np.stack([np.pad(a, (0, size - a.size)) for a in arrays])
