"""Mixes by compiled kernels, on CPUs: what PyTorch's autograd sees of `chimera_ssm.solvers.kernels`.

Numba is loaded at the first kernel. Where it is missing, plain PyTorch takes over, and the log says so once.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from chimera_ssm.solvers.blocks import join, split
from chimera_ssm.topology import Topology

if TYPE_CHECKING:
    from chimera_ssm.solvers.kernels.plan import SweepPlan

_log = logging.getLogger("chimera_ssm")
#: Numbers of M that exist at once: enough to keep threads busy, few enough to stay in a cache.
_MASK_ELEMENTS = 1 << 22


@lru_cache(maxsize=1)
def _numba_is_there() -> bool:
    if find_spec("numba") is not None:
        return True
    _log.warning("numba is not installed: solvers run in plain PyTorch; pip install numba for compiled kernels")
    return False


def usable(*tensors: Tensor | None) -> bool:
    """Whether kernels can take these tensors: on a CPU, in float32 or float64."""
    return (
        all(x is None or (x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)) for x in tensors)
        and _numba_is_there()
    )


def mix_by_states(topologies: list[Topology], weights: list[Tensor], Cs: list[Tensor], Bs: list[Tensor], V: Tensor,
                  scales: list[Tensor]) -> Tensor:  # fmt: skip
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V`` on acyclic topologies, shapes as in `chimera_ssm.solvers.forms`."""
    return _StateMix.apply(V, topologies, *weights, *scales, *Cs, *Bs)


def mix_by_masks(topologies: list[Topology], weights: list[Tensor], Cs: list[Tensor], Bs: list[Tensor], V: Tensor,
                 scales: list[Tensor]) -> Tensor:  # fmt: skip
    """The same through masks."""
    return _MaskMix.apply(V, topologies, *weights, *scales, *Cs, *Bs)


def _quarters(tensors: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    """Weights, scales, Cs and Bs out of one tuple."""
    n = len(tensors) // 4
    return tensors[:n], tensors[n : 2 * n], tensors[2 * n : 3 * n], tensors[3 * n :]


# States


class _StateMix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, V: Tensor, topologies: list[Topology], *tensors: Tensor) -> Tensor:
        from chimera_ssm.solvers.kernels import pool, states

        ctx.save_for_backward(V, *tensors)
        ctx.topologies = topologies
        v = _padded(V.detach(), states.CHANNELS).flatten(0, 1)
        y = torch.zeros_like(v)
        calls = []
        for topology, w, scale, C, B in zip(topologies, *_quarters(tensors), strict=True):
            plan, (others, begin, edge, place, _) = _sweep_plan(topology, carry=True), _other_edges(topology)
            segment = min(max(512, 8 * plan.slots), topology.num_nodes)
            steps = plan.node, plan.carried, begin, edge, place, plan.slot, plan.slots, segment
            arrays = _numpy(w, scale.flatten(0, 1), _in_blocks(B, topology), _in_blocks(C, topology), v, y)
            calls.append((states.KERNELS[others][0], (*steps, *arrays)))
        work = len(topologies) * _state_work(topologies[0], v, tensors[-1])
        pool.run_each(calls, v.shape[0] * (v.shape[2] // states.CHANNELS), work)
        return y.view(*V.shape[:3], -1)[..., : V.shape[3]]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        from chimera_ssm.solvers.kernels import pool, states

        V, *tensors = ctx.saved_tensors
        v, g = (_padded(x, states.CHANNELS).flatten(0, 1) for x in (V, grads[0]))
        dv, parts = torch.zeros_like(v), v.shape[2] // states.CHANNELS
        ranges = min(pool.threads_for(_state_work(ctx.topologies[0], v, tensors[-1])), v.shape[0] * parts)
        results: list[list[Tensor]] = [[], [], [], []]
        for topology, w, scale, C, B in zip(ctx.topologies, *_quarters(tuple(tensors)), strict=True):
            plan, (others, begin, edge, place, latest) = _sweep_plan(topology, carry=True), _other_edges(topology)
            segment = min(max(64, 4 * plan.slots), topology.num_nodes)
            b, c = _in_blocks(B, topology), _in_blocks(C, topology)
            dw, dscale = v.new_zeros(parts, *w.shape), v.new_zeros(parts, *scale.flatten(0, 1).shape)
            dB, dC = v.new_zeros(2, ranges, *b.shape)
            pool.run(
                states.KERNELS[others][1], ranges, ranges, plan.node, plan.carried, begin, edge, place,
                _source_slots(topology), _places(topology, segment), latest, plan.slot, _back_slots(topology),
                plan.slots, segment,
                *_numpy(w, scale.flatten(0, 1), b, c, v, g, dw, dscale, dB, dC, dv),
            )  # fmt: skip
            gradients = (
                dw.sum(0),
                dscale.sum(0).view(scale.shape),
                *(_from_blocks(x.sum(0), C, topology) for x in (dC, dB)),
            )
            for kept, gradient in zip(results, gradients, strict=True):
                kept.append(gradient)
        dV = dv.view(*V.shape[:3], -1)[..., : V.shape[3]]
        return dV, None, *results[0], *results[1], *results[2], *results[3]


def _state_work(topology: Topology, V: Tensor, C: Tensor) -> int:
    return (topology.num_nodes + topology.num_edges) * V.shape[0] * V.shape[-1] * C.shape[-1]


def _other_edges(topology: Topology) -> tuple[int, Any, Any, Any, Any]:
    """Edges that do not come from the step before, as `states.with_others` wants them.

    How many a step may have (0, 1, or 2 for any number), begin, edge, place among the slots, and whether it is the last
    to read there.
    """
    return topology.once("other edges", lambda: _arrange_others(_sweep_plan(topology, carry=True)))


def _arrange_others(plan: SweepPlan) -> tuple[int, Any, Any, Any, Any]:
    count = np.diff(plan.begin)
    if count.max() > 1 or not plan.last.all():
        return 2, plan.begin, plan.edge, plan.source_slot, plan.last
    edge, place = np.full(plan.node.size, -1), np.full(plan.node.size, plan.slots + 2)
    latest = np.zeros(plan.node.size, dtype=np.int64)
    edge[count > 0], place[count > 0], latest[count > 0] = plan.edge, plan.source_slot, plan.last
    return int(count.max()), np.arange(plan.node.size + 1), edge, place, latest


def _source_slots(topology: Topology) -> Any:
    """Where the adjoint of each such edge's source is collected: its slot, or one that nobody reads."""
    _, _, edge, place, _ = _other_edges(topology)
    return topology.once("source slots", lambda: np.where(edge >= 0, place, _sweep_plan(topology, carry=True).slots))


def _back_slots(topology: Topology) -> Any:
    """Where each step finds what was collected for it: its slot, or a row of zeros."""
    plan = _sweep_plan(topology, carry=True)
    return topology.once("back slots", lambda: np.where(plan.slot < plan.slots, plan.slot, plan.slots + 2))


def _places(topology: Topology, segment: int) -> Any:
    """Row of each such edge's source while a segment is worked on, see the backward kernel."""

    def make() -> Any:
        plan, (_, begin, edge, place, _) = _sweep_plan(topology, carry=True), _other_edges(topology)
        start = np.repeat(np.arange(plan.node.size) // segment * segment, np.diff(begin))
        step = np.full(edge.size, -1)
        step[edge >= 0] = plan.source_step
        return np.where(step < start, place, plan.slots + 4 + step - start)

    return topology.once(("places", segment), make)


def _in_blocks(x: Tensor, topology: Topology) -> Tensor:
    """``[Z, G, T, N]`` → ``[Z·G, N/4, T, 4]`` in the order of steps."""
    steps = topology.tensors("topological_order", x.device)
    x = _padded(x.detach(), 4).flatten(0, 1).index_select(1, steps)
    return x.unflatten(-1, (-1, 4)).transpose(1, 2).contiguous()


def _from_blocks(x: Tensor, like: Tensor, topology: Topology) -> Tensor:
    """The reverse."""
    x = x.transpose(1, 2).flatten(2)[..., : like.shape[-1]]
    steps = topology.tensors("topological_order", x.device)
    return torch.empty_like(x).index_copy_(1, steps, x).view(like.shape)


def _padded(x: Tensor, multiple: int) -> Tensor:
    """``x`` with zeros after its last dimension up to a multiple, contiguous."""
    missing = -x.shape[-1] % multiple
    return (pad(x, (0, missing)) if missing else x).contiguous()


# Masks


class _MaskMix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, V: Tensor, topologies: list[Topology], *tensors: Tensor) -> Tensor:
        layout = _Layout(topologies, V, *_quarters(tensors))
        ctx.save_for_backward(V, *tensors)
        ctx.topologies = topologies
        v = layout.split(V.detach().flatten(0, 1))
        y = torch.empty_like(v)
        for groups, heads, M in layout.chunks():
            layout.fill(M, heads, layout.products(groups))
            masks = layout.as_blocks(M)[..., : layout.side]
            torch.bmm(masks, v[heads].flatten(0, 1), out=y[heads].flatten(0, 1))
        return layout.join(y).view(V.shape)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        V, *tensors = ctx.saved_tensors
        layout = _Layout(ctx.topologies, V, *_quarters(tuple(tensors)))
        g = layout.split(grads[0].flatten(0, 1))
        wide = layout.split(V.flatten(0, 1), layout.columns)
        dV = torch.empty_like(wide)
        gradients = layout.empty_gradients()
        for groups, heads, M in layout.chunks():
            products = layout.products(groups)
            layout.fill(M, heads, products)
            blocks, out = layout.as_blocks(M), g[heads].flatten(0, 1)
            torch.bmm(blocks.mT, out, out=dV[heads].flatten(0, 1))
            torch.bmm(out, wide[heads].flatten(0, 1).mT, out=blocks)
            layout.adjoint(M, groups, heads, products, gradients)
        dV = layout.join(dV[..., : layout.side, :]).view(V.shape)
        return dV, None, *(x for kind in gradients for x in kind)


class _Layout:
    """Padded blocks of a mask mix: rows and columns within each part of the topologies, columns in whole vectors."""

    def __init__(self, topologies: list[Topology], V: Tensor, weights: Any, scales: Any, Cs: Any, Bs: Any):
        self.topologies, self.weights, self.Cs, self.Bs = topologies, weights, Cs, Bs
        self.scales = [s.flatten(0, 1) for s in scales]
        self.plan = topologies[0].tensors("block_plan", V.device)
        (self.blocks, self.side), self.groups = self.plan.shape, Cs[0].shape[0] * Cs[0].shape[1]
        self.columns = -(-self.side // 8) * 8
        self.share = V.shape[0] * V.shape[1] // self.groups
        split = _Once(lambda x: self.split(x.detach().flatten(0, 1), self.columns))
        self.C, self.B = [split(x) for x in Cs], [split(x) for x in Bs]

    def split(self, x: Tensor, side: int | None = None) -> Tensor:
        """``[H, T, K]`` → ``[H, blocks, side, K]``."""
        blocks, missing = split(self.plan, x), (side or self.side) - self.side
        return (pad(blocks, (0, 0, 0, missing)) if missing else blocks).contiguous()

    def join(self, x: Tensor) -> Tensor:
        """The reverse."""
        return join(self.plan, x)

    def as_blocks(self, M: Tensor) -> Tensor:
        """``[H, rows, columns]`` → ``[H·blocks, side, columns]``."""
        return M.view(-1, self.side, self.columns)

    def chunks(self) -> Any:
        """Groups, heads and a matrix M for them: a few at a time, in the same memory."""
        size = self.blocks * self.side * self.columns
        step = max(1, _MASK_ELEMENTS // (size * self.share))
        memory = self.weights[0].new_empty(min(step, self.groups) * self.share, self.blocks * self.side, self.columns)
        for first in range(0, self.groups, step):
            groups = slice(first, min(first + step, self.groups))
            heads = slice(groups.start * self.share, groups.stop * self.share)
            yield groups, heads, memory[: heads.stop - heads.start]

    def products(self, groups: slice) -> list[Tensor]:
        """``S = C Bᵀ`` for each topology, ``[G, rows, columns]``, each pair of tensors once."""
        once: dict[tuple[int, int], Tensor] = {}
        for C, B in zip(self.C, self.B, strict=True):
            if (id(C), id(B)) not in once:
                S = C[groups, :, : self.side].flatten(0, 1) @ B[groups].flatten(0, 1).mT
                once[id(C), id(B)] = S.view(-1, self.blocks * self.side, self.columns)
        return [once[id(C), id(B)] for C, B in zip(self.C, self.B, strict=True)]

    def fill(self, M: Tensor, heads: slice, products: list[Tensor]) -> None:
        """``M = Σ_d L_d ⊙ C_d B̄_dᵀ``."""
        from chimera_ssm.solvers.kernels import masks, pool

        plan = _stacked_plans(self.topologies)
        steps = (
            plan["node"],
            plan["row"],
            plan["column"],
            plan["begin"],
            plan["edge"],
            plan["source_slot"],
            plan["slot"],
        )
        which, S = self._distinct(products)
        arrays = _numpy(self._stack(self.weights, heads), self._stack(self.scales, heads), S, M)
        pool.run(
            masks.masks_forward, M.shape[0], *steps, plan["slots"], plan["low"], plan["high"], which, *arrays,
            work=len(products) * M.numel(),
        )  # fmt: skip

    @staticmethod
    def _stack(tensors: Any, heads: slice) -> Tensor:
        """``[D, H, ·]``, zeros where a topology has less."""
        size = max(x.shape[1] for x in tensors)
        return torch.stack([pad(x[heads].detach(), (0, size - x.shape[1])) for x in tensors])

    @staticmethod
    def _distinct(products: list[Tensor]) -> tuple[Any, Tensor]:
        """For each topology the number of its products among the distinct ones, and these."""
        distinct = list({id(S): S for S in products}.values())
        which = np.array([next(i for i, S in enumerate(distinct) if S is T) for T in products])
        return which, distinct[0].unsqueeze(0) if len(distinct) == 1 else torch.stack(distinct)

    def empty_gradients(self) -> list[list[Tensor]]:
        """Room for gradients of weights, scales, Cs and Bs."""
        return [
            [torch.zeros_like(w) for w in self.weights],
            [torch.zeros_like(s).view(-1, self.Cs[0].shape[1] * self.share, s.shape[-1]) for s in self.scales],
            [torch.empty_like(C) for C in self.Cs],
            [torch.empty_like(B) for B in self.Bs],
        ]

    def adjoint(
        self, dM: Tensor, groups: slice, heads: slice, products: list[Tensor], gradients: list[list[Tensor]]
    ) -> None:
        """Gradients of these groups for ``dM = g Vᵀ``."""
        from chimera_ssm.solvers.kernels import masks, pool

        count = groups.stop - groups.start
        splits = min(self.share, -(-pool.threads_for(dM.numel()) // count))
        memory = products[0].new_empty(splits, *products[0].shape)  # new memory costs more than what is done with it
        for d, (topology, S) in enumerate(zip(self.topologies, products, strict=True)):
            plan, back = _sweep_plan(topology, carry=False), _sweep_plan(_flipped(topology), carry=False)
            dS = memory.zero_()
            dw, dscale = gradients[0][d][heads], gradients[1][d].flatten(0, 1)[heads]
            arrays = _numpy(self.weights[d][heads], self.scales[d][heads], S, dM, dw, dscale, dS)
            pool.run(
                masks.masks_backward, count * splits, splits, plan.node, plan.row, plan.column, plan.begin, plan.edge,
                plan.source_step, plan.low, plan.high, _back_steps(topology, plan, back), back.begin, back.edge,
                back.source_slot, back.slot, back.slots, *arrays, work=dM.numel(),
            )  # fmt: skip
            dS = (dS[0] if splits == 1 else dS.sum(0)).view(-1, self.side, self.columns)
            C, B = self.C[d][groups, :, : self.side].flatten(0, 1), self.B[d][groups].flatten(0, 1)
            dC, dB = (
                (dS @ B).view(count, self.blocks, self.side, -1),
                (dS.mT @ C).view(count, self.blocks, self.columns, -1),
            )
            gradients[2][d].flatten(0, 1)[groups] = self.join(dC)
            gradients[3][d].flatten(0, 1)[groups] = self.join(dB[:, :, : self.side])


def _stacked_plans(topologies: list[Topology]) -> dict[str, Any]:
    """Plans of several topologies on the same nodes, each array ``[D, ·]``, padded with zeros."""

    def make() -> dict[str, Any]:
        plans = [_sweep_plan(t, carry=False) for t in topologies]
        stacked: dict[str, Any] = {"slots": max(p.slots for p in plans)}
        for name in ("node", "row", "column", "begin", "edge", "source_slot", "slot", "low", "high"):
            arrays = [getattr(p, name) for p in plans]
            size = max(1, *(a.size for a in arrays))
            stacked[name] = np.stack([np.pad(a, (0, size - a.size)) for a in arrays])
        return stacked

    return topologies[0].once(("stacked plans", *topologies[1:]), make)


def _back_steps(topology: Topology, plan: SweepPlan, back: SweepPlan) -> Any:
    """Step of the plan that each step of the flipped plan corresponds to."""

    def make() -> Any:
        step = np.empty_like(plan.node)
        step[plan.node] = np.arange(plan.node.size, dtype=plan.node.dtype)
        return step[back.node]

    return topology.once("back steps", make)


# Columns


class CompiledSweep:
    """Factors of an acyclic topology: its weights, to be swept along and against the edges."""

    def __init__(self, topology: Topology, weight: Tensor):
        self.topology, self.weight = topology, weight

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        x = pad(rhs, (0, -rhs.shape[-1] % 8)).clone(memory_format=torch.contiguous_format)
        _pull(_flipped(self.topology) if transpose else self.topology, self.weight, x, x)
        return x[..., : rhs.shape[-1]]


def spread(topology: Topology, weight: Tensor, x: Tensor) -> Tensor:
    """``A @ x``: weights ``[G, E]``, ``x [G, T, K]``; on the flipped topology ``Aᵀ @ x``."""
    padded = _padded(x, 8)
    y = torch.zeros_like(padded)
    _pull(topology, weight, padded, y)
    return y[..., : x.shape[-1]]


def _pull(topology: Topology, weight: Tensor, x: Tensor, y: Tensor) -> None:
    from chimera_ssm.solvers.kernels import pool, pulls

    plan, (heads, _, K) = pulls.pull_plan(topology), y.shape
    arrays = [*_numpy(weight, x), y.numpy()]
    pool.run(
        pulls.pull, heads * -(-K // pulls.COLUMNS), plan.node, plan.begin, plan.edge, plan.source, *arrays,
        work=heads * K * (topology.num_edges + topology.num_nodes),
    )  # fmt: skip


# All


class _Once:
    """A function that makes each tensor's result once, so that what is given twice is also worked on once."""

    def __init__(self, make: Any):
        self.make, self.made = make, {}

    def __call__(self, x: Tensor) -> Tensor:
        if id(x) not in self.made:
            self.made[id(x)] = self.make(x)
        return self.made[id(x)]


def _sweep_plan(topology: Topology, carry: bool) -> SweepPlan:
    from chimera_ssm.solvers.kernels.plan import sweep_plan

    return sweep_plan(topology, carry)


def _flipped(topology: Topology) -> Topology:
    return topology.once("flipped", topology.flip)


def _numpy(*tensors: Tensor) -> list[Any]:
    return [x.detach().contiguous().numpy() for x in tensors]
