"""`Chimera`, the mixer: features in, features out, mixed along the paths of a topology."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_ssm.adjacency import Adjacency, inverse_softplus
from chimera_ssm.nn.decay import mark_undecayed
from chimera_ssm.nn.kinds import Kind, OnGraph, check_kind
from chimera_ssm.nn.norm import HeadNorm
from chimera_ssm.ops import Neumann, Solver, mix, solve
from chimera_ssm.topology import Line, Topology

RESOLVENTS = ("exact", "identity")
INITS = ("average", "paper")


class MixerState(NamedTuple):
    """What the recurrent form remembers of the nodes before.

    Attributes:
        window: inputs of the convolution at the last nodes, ``[Z, reach − 1, channels]``.
        steps: step sizes of the last node, ``[Z, H, S]``.
        hidden: ``[Z, H, N, P]``.
    """

    window: Tensor
    steps: Tensor
    hidden: Tensor


class Chimera(nn.Module):
    """A state space mixer on any topology.

        z, (V, B, C), Δ = projection(x)        V, B, C = silu(conv(V, B, C))        Δ = softplus(Δ + bias)
        y = Σ_d (L_d ⊙ C_d B̄_dᵀ) V / √d + D V        out = projection(RMSNorm(y · silu(z)))

    with ``L_d = (I − A_d)⁻¹`` for each topology of the sum: one for a directed line, a DAG or a graph, two for
    `OnTwoLines`, 2**axes for `OnGrid` (paper, equation 5 and figure 6).

    Args:
        dim: features of a node.
        num_heads: H; ``max(1, expand · dim // 64)`` if omitted.
        state_size: N.
        expand: inner width in units of ``dim``; H·P = expand · dim.
        groups: G, groups of heads that share B and C.
        gate: whether to gate the output by ``silu(z)``.
        edge_dim: features of an edge, for kinds that have them.
        kind: what topologies the mixer is for, see `chimera_ssm.nn.kinds`; the default takes any.
        conv: whether V, B and C go through a local convolution.
        resolvent: ``"exact"``, or ``"identity"`` for L = I with everything else unchanged: what the mixer does without
            paths, for ablations.
        init: initial values: with ``"average"`` C · B starts near one, so that the mix starts as an average, and the
            steps of the heads are spread evenly over their range; with ``"paper"`` all are drawn independently.
        solver: the fastest exact one if omitted.
        dt_min: least initial step.
        dt_max: largest initial step; both are multiplied by the kind's `step_scales`.

    Shapes: ``x [..., T, dim]``, ``edge_attr [..., E, edge_dim]``, ``node_mask [..., T]`` → ``[..., T, dim]``; leading
    dimensions of the others broadcast to those of ``x``.

    Example:
        >>> mixer = Chimera(64)
        >>> mixer(torch.randn(2, 3, 64), Graph(3, [[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([2, 3, 64])
    """

    def __init__(
        self,
        dim: int,
        num_heads: int | None = None,
        state_size: int = 64,
        expand: int = 2,
        groups: int = 1,
        gate: bool = True,
        edge_dim: int | None = None,
        kind: Kind | None = None,
        conv: bool = True,
        resolvent: str = "exact",
        init: str = "average",
        solver: Solver | None = None,
        dt_min: float = 0.001,
        dt_max: float = 0.1,
    ):
        super().__init__()
        self.dim, self.width, self.state_size = dim, expand * dim, state_size
        self.num_heads = max(1, self.width // 64) if num_heads is None else num_heads
        self.groups, self.kind, self.solver = groups, OnGraph() if kind is None else kind, solver
        self.resolvent, self.init, self.dt_range = resolvent, init, (dt_min, dt_max)
        self._check_sizes(edge_dim)

        H, S, J = self.num_heads, self.kind.num_steps, self.kind.num_injections
        self.num_sets = max(self.kind.sets) + 1
        channels = self.width + 2 * self.num_sets * groups * state_size
        self.splits = [self.width if gate else 0, channels, H * S, H * J]
        self.in_proj = nn.Linear(dim, sum(self.splits), bias=False)
        self.conv = self.kind.conv(channels) if conv else None
        if self.conv is not None and init == "average":
            # C · B starts near one: silu(bias)² = 1 / N.
            self.conv.constant_from, self.conv.constant = self.width, _inverse_silu(state_size**-0.5)
        shared_bias = getattr(self.kind, "shared_bias", False)
        self.step_bias = nn.Parameter(torch.empty(H, 1 if shared_bias else S))
        self.edge_proj = None if edge_dim is None else nn.Linear(edge_dim, H, bias=False)
        self.edge_bias = None if edge_dim is None or shared_bias else nn.Parameter(torch.empty(H))
        self.norm = HeadNorm(H, self.width)
        self.out_proj = nn.Linear(self.width, dim, bias=False)
        mark_undecayed(self)
        self.reset_parameters()

    def _check_sizes(self, edge_dim: int | None) -> None:
        if self.resolvent not in RESOLVENTS:
            raise ValueError(f"resolvent must be one of {RESOLVENTS}, found {self.resolvent!r}")
        if self.init not in INITS:
            raise ValueError(f"init must be one of {INITS}, found {self.init!r}")
        if self.width % self.num_heads:
            raise ValueError(
                f"the inner width {self.width} (expand · dim) must be divisible by num_heads, found {self.num_heads}"
            )
        if self.num_heads % self.groups:
            raise ValueError(
                f"num_heads must be divisible by groups, found {self.num_heads} heads and {self.groups} groups"
            )
        if edge_dim is not None and not self.kind.edge_features:
            raise ValueError(
                f"{type(self.kind).__name__} has no edge features; leave edge_dim out, or use OnGraph or OnDAG"
            )

    def undecayed_parameters(self) -> list[nn.Parameter]:
        """Parameters that weight decay should leave alone: step biases and D."""
        return [p for p in (self.step_bias, self.edge_bias, self.norm.D) if p is not None]

    def reset_parameters(self) -> None:
        """Steps log-uniform in [dt_min, dt_max]; all else as the modules do."""
        self.in_proj.reset_parameters()
        if self.conv is not None:
            self.conv.reset_parameters()
        self.norm.reset_parameters()
        self.out_proj.reset_parameters()
        if self.edge_proj is not None:
            self.edge_proj.reset_parameters()
        self.reset_own_parameters()

    def reset_own_parameters(self) -> None:
        """Steps alone: the parameters that are in none of the mixer's modules."""
        low, high = map(math.log, self.dt_range)
        uniform = _stratified if self.init == "average" else torch.rand_like
        scales = self.step_bias.new_tensor(self.kind.step_scales[: self.step_bias.shape[1]])
        with torch.no_grad():
            for bias, scale in ((self.step_bias, scales), (self.edge_bias, self.kind.edge_step_scale)):
                if bias is not None:
                    steps = torch.exp(low + (high - low) * uniform(bias))
                    bias.copy_(inverse_softplus(steps * scale))

    def extra_repr(self) -> str:
        """Sizes, for ``print``."""
        return f"{self.dim}, num_heads={self.num_heads}, state_size={self.state_size}, kind={self.kind}"

    def forward(
        self, x: Tensor, topology: Topology, edge_attr: Tensor | None = None, node_mask: Tensor | None = None
    ) -> Tensor:
        """Mix features ``[..., T, dim]`` along the topology.

        Args:
            x: features of the nodes.
            topology: of the kind the mixer was built for; T nodes.
            edge_attr: features of the edges, in the topology's edge order.
            node_mask: True where there is a node, ``[..., T]``; other nodes neither speak nor hear, and are zero.
        """
        self._check_input(x, topology, edge_attr, node_mask)
        lead, x, node_mask = self._flattened(x, topology, node_mask)
        z, features, steps, projected = self.in_proj(x).split(self.splits, dim=-1)
        features = F.silu(features) if self.conv is None else self.conv(features, topology, activate=True)
        if node_mask is not None:
            features = features.masked_fill(~node_mask.unsqueeze(-1), 0)
        V, B, C = self._heads(features)
        steps = self._steps(steps), self._edge_steps(edge_attr, lead)
        terms = self.kind.terms(topology, *steps, node_mask, self._injections(projected))
        y = self._mix(terms, V, B, C)
        y = self.norm(y, V, z if z.shape[-1] else None)
        return self.out_proj(y.to(z.dtype)).reshape(*lead, topology.num_nodes, self.dim)

    def heard_by(
        self,
        node: int | Sequence[int],
        x: Tensor,
        topology: Topology,
        edge_attr: Tensor | None = None,
        node_mask: Tensor | None = None,
    ) -> Tensor:
        """What one node hears from each: row ``node`` of the resolvents, ``Σ_d L_d[node, :]``, ``[..., H, T]``.

        Nodes that say nothing, as those that are masked do, are not heard.

        Args:
            node: its number; for several, their rows are ``[..., H, K, T]``.
            x: as for `forward`, and so are the others.
            topology: of the mixer's kind.
            edge_attr: features of the edges.
            node_mask: True where there is a node.
        """
        self._check_input(x, topology, edge_attr, node_mask)
        nodes = [node] if isinstance(node, int) else list(node)
        for one in nodes:
            if not 0 <= one < topology.num_nodes:
                raise ValueError(f"nodes are numbered 0 to {topology.num_nodes - 1}, found {one}")
        lead, x, node_mask = self._flattened(x, topology, node_mask)
        _, _, steps, projected = self.in_proj(x).split(self.splits, dim=-1)
        steps = self._steps(steps)
        unit = torch.zeros(1, topology.num_nodes, len(nodes), dtype=steps.dtype, device=x.device)
        unit[0, nodes, range(len(nodes))] = 1
        edge_step = self._edge_steps(edge_attr, lead)
        terms = self.kind.terms(topology, steps, edge_step, node_mask, self._injections(projected))
        unit = unit.expand(self.num_heads, -1, -1)
        if self.resolvent == "identity":
            solved = [unit.expand(*a.weight.shape[:-1], -1, -1) for _, a in terms]
        else:
            solved = [solve(t.flip(), a.weight, unit, self.solver) for t, a in terms]
        heard = [s * (a.scale != 0).unsqueeze(-1) for s, (_, a) in zip(solved, terms, strict=True)]
        rows = torch.stack(heard).sum(0).mT.reshape(*lead, self.num_heads, len(nodes), topology.num_nodes)
        return rows.squeeze(-2) if isinstance(node, int) else rows

    def step(self, x: Tensor, state: MixerState | None = None) -> tuple[Tensor, MixerState]:
        """The recurrent form on a directed line: one node in, one node out; equal to `forward`.

        Mixers with ``edge_dim`` and those that approximate have none.

        Args:
            x: features of the next node, ``[..., dim]``.
            state: as returned for the node before; ``None`` at the first.

        Returns:
            Features ``[..., dim]``, and the state for the next node.
        """
        self._check_streams()
        lead, x = x.shape[:-1], x.reshape(-1, self.dim)
        z, features, steps, projected = self.in_proj(x).split(self.splits, dim=-1)
        steps = self._steps(steps.unsqueeze(1)).squeeze(-1)
        reach = 1 if self.conv is None else self.conv.reach
        window = features.new_zeros(x.shape[0], reach - 1, features.shape[-1])
        window = torch.cat([window if state is None else state.window, features.unsqueeze(1)], dim=1)
        line = Line(window.shape[1])
        features = (F.silu(window) if self.conv is None else self.conv(window, line, activate=True))[:, -1:]
        V, B, C = (t[..., 0, :] for t in self._heads(features))
        B, C = (t[:, 0].repeat_interleave(self.num_heads // self.groups, dim=1).to(steps.dtype) for t in (B, C))
        V = V.to(steps.dtype)

        seen = steps.unsqueeze(-1) if state is None else torch.stack([state.steps, steps], dim=-1)
        projected = self._injections(projected.unsqueeze(1))
        ((_, (weight, scale)),) = self.kind.terms(Line(seen.shape[-1]), seen, None, None, projected)
        hidden = scale[..., -1, None, None] * B.unsqueeze(-1) * V.unsqueeze(-2)
        if state is not None and self.resolvent != "identity":
            hidden = hidden + weight.unsqueeze(-1) * state.hidden
        y = self.norm(C.unsqueeze(-2) @ hidden, V.unsqueeze(-2), z.unsqueeze(1) if z.shape[-1] else None)
        return self.out_proj(y.to(z.dtype)).reshape(*lead, self.dim), MixerState(window[:, 1:], steps, hidden)

    def _flattened(
        self, x: Tensor, topology: Topology, node_mask: Tensor | None
    ) -> tuple[tuple[int, ...], Tensor, Tensor | None]:
        """Leading dimensions; ``x`` and the mask with these made one, ``x`` zero where there is no node."""
        lead = x.shape[:-2]
        x = x.reshape(-1, *x.shape[-2:])
        if node_mask is not None:
            node_mask = node_mask.expand(*lead, -1).reshape(-1, topology.num_nodes)
            x = x.masked_fill(~node_mask.unsqueeze(-1), 0)
        return lead, x, node_mask

    def _heads(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``V [Z, H, T, P]``, ``B, C [Z, sets, G, T, N]`` of convolved features ``[Z, T, channels]``."""
        BC = self.num_sets * self.groups * self.state_size
        V, B, C = features.split([self.width, BC, BC], dim=-1)
        V = V.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        B, C = (t.unflatten(-1, (self.num_sets, self.groups, self.state_size)).movedim(1, 3) for t in (B, C))
        return V, B, C

    def _steps(self, steps: Tensor) -> Tensor:
        """Step sizes ``[Z, H, S, T]``, in float32 at least, of projections ``[Z, T, H·S]``."""
        steps = steps.unflatten(-1, (self.num_heads, -1)).movedim(1, 3)
        return F.softplus(steps.to(_at_least_float32(steps)) + self.step_bias.unsqueeze(-1))

    def _injections(self, projected: Tensor) -> Tensor | None:
        """Signed injections ``[Z, H, J, T]`` of projections ``[Z, T, H·J]``, in float32 at least."""
        if not self.kind.num_injections:
            return None
        projected = projected.unflatten(-1, (self.num_heads, -1)).movedim(1, 3)
        return projected.to(_at_least_float32(projected))

    def _edge_steps(self, edge_attr: Tensor | None, lead: tuple[int, ...]) -> Tensor | None:
        """Step sizes of edges, ``[Z, H, E]``."""
        if self.edge_proj is None or edge_attr is None:
            return None
        steps, bias = self.edge_proj(edge_attr).mT, self.step_bias[:, 0] if self.edge_bias is None else self.edge_bias
        steps = F.softplus(steps.to(_at_least_float32(steps)) + bias.unsqueeze(-1))
        steps = steps.expand(*lead, -1, -1)
        return steps.reshape(math.prod(lead), *steps.shape[-2:])  # −1 would be ambiguous where there are no edges

    def _mix(self, terms: list[tuple[Topology, Adjacency]], V: Tensor, B: Tensor, C: Tensor) -> Tensor:
        """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V / √d``, ``[Z, H, T, P]``, in the precision of the weights."""
        Bs, Cs = B.unbind(1), C.unbind(1)
        sets = self.kind.sets if len(self.kind.sets) > 1 else self.kind.sets * len(terms)
        # The sum of several terms is divided by way of B̄, which is small.
        scales = [a.scale if len(terms) == 1 else a.scale / math.sqrt(len(terms)) for _, a in terms]
        Bs, Cs, V = [Bs[s] for s in sets], [Cs[s] for s in sets], V.to(scales[0].dtype)
        if self.resolvent == "identity":
            return _mix_identity(Cs, Bs, V, scales)
        return mix([dag for dag, _ in terms], [weights.weight for _, weights in terms], Cs, Bs, V, scales, self.solver)

    def _check_input(self, x: Tensor, topology: Topology, edge_attr: Tensor | None, node_mask: Tensor | None) -> None:
        check_kind(self.kind, topology)
        if not x.is_floating_point():
            raise ValueError(f"x must be floating point, found {x.dtype}; embed integer features first")
        if x.dim() < 2 or x.shape[-2:] != (topology.num_nodes, self.dim):
            raise ValueError(
                f"x must have shape [..., {topology.num_nodes}, {self.dim}], a row for each node of {topology!r}, "
                f"found {list(x.shape)}"
            )
        if node_mask is not None:
            if node_mask.dtype != torch.bool or node_mask.shape[-1:] != (topology.num_nodes,):
                raise ValueError(
                    f"node_mask must be boolean, [..., {topology.num_nodes}], True where there is a node, "
                    f"found {node_mask.dtype}, {list(node_mask.shape)}"
                )
            _check_lead("node_mask", node_mask.shape[:-1], x.shape[:-2])
        self._check_edges(x, topology, edge_attr)

    def _check_edges(self, x: Tensor, topology: Topology, edge_attr: Tensor | None) -> None:
        if (edge_attr is None) != (self.edge_proj is None):
            raise ValueError(
                "edge_attr is needed by a mixer with edge_dim, and only by such a one; "
                f"found edge_dim={None if self.edge_proj is None else self.edge_proj.in_features} and "
                f"edge_attr={'None' if edge_attr is None else list(edge_attr.shape)}"
            )
        if edge_attr is None or self.edge_proj is None:
            return
        if not edge_attr.is_floating_point():
            raise ValueError(f"edge_attr must be floating point, found {edge_attr.dtype}; embed integers first")
        expected = (topology.num_edges, self.edge_proj.in_features)
        if edge_attr.shape[-2:] != expected:
            raise ValueError(
                f"edge_attr must have shape [..., {expected[0]}, {expected[1]}], found {list(edge_attr.shape)}"
            )
        _check_lead("edge_attr", edge_attr.shape[:-2], x.shape[:-2])

    def _check_streams(self) -> None:
        if not self.kind.streams:
            raise ValueError(
                f"only causal mixers have a recurrent form: OnLine, OnDAG and OnGraph on a directed line; this one is "
                f"{type(self.kind).__name__}, whose nodes also hear from those that come later"
            )
        if self.edge_proj is not None:
            raise ValueError(
                "the recurrent form knows no features of edges, and this mixer has "
                f"edge_dim={self.edge_proj.in_features}; call it on the whole line, or build it without edge_dim"
            )
        if isinstance(self.solver, Neumann):
            raise ValueError(
                f"the recurrent form is exact, and this mixer approximates by {self.solver}; "
                "call it on the whole line, or build it without a solver"
            )


def _mix_identity(Cs: list[Tensor], Bs: list[Tensor], V: Tensor, scales: list[Tensor]) -> Tensor:
    """`mix` with L = I: ``Σ_d β_d (C_d · B_d) V`` at each node by itself."""
    heads = V.shape[1]
    dots = [(C.to(V.dtype) * B.to(V.dtype)).sum(-1) for C, B in zip(Cs, Bs, strict=True)]
    dots = [dot.repeat_interleave(heads // dot.shape[1], dim=1) for dot in dots]
    return torch.stack([s * dot for s, dot in zip(scales, dots, strict=True)]).sum(0).unsqueeze(-1) * V


def _stratified(like: Tensor) -> Tensor:
    """Numbers between 0 and 1, one near the middle of each of H intervals of equal size, in random order.

    With few heads, independent draws would now and then leave out short or long steps altogether.
    """
    return (torch.rand_like(like).argsort(dim=0) + 0.4 + 0.2 * torch.rand_like(like)) / len(like)


def _inverse_silu(y: float) -> float:
    """The x > 0 with ``silu(x) = y``, for y > 0, by Newton's method."""
    x = y
    for _ in range(50):
        s = 1 / (1 + math.exp(-x))
        x -= (x * s - y) / (s + x * s * (1 - s))
    return x


def _check_lead(name: str, found: Sequence[int], lead: Sequence[int]) -> None:
    """Refuse leading dimensions that do not broadcast to those of ``x``."""
    pairs = zip(reversed(found), reversed(lead), strict=False)
    if len(found) > len(lead) or any(n not in (1, m) for n, m in pairs):
        raise ValueError(
            f"the leading dimensions of {name} must broadcast to those of x, {list(lead)}, found {list(found)}; "
            f"reshape {name} as x is, with 1 where it is the same for all"
        )


def _at_least_float32(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
