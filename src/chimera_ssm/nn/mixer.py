"""`Chimera`, the mixer: features of nodes, mixed along the paths of a topology."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from chimera_ssm.adjacency import Adjacency
from chimera_ssm.nn.kinds import check_kind
from chimera_ssm.nn.mixer_checks import check_edges, check_nodes, check_recurrent
from chimera_ssm.nn.mixer_parameters import MixerParameters
from chimera_ssm.ops import mix, solve
from chimera_ssm.topology import Line, Topology


class MixerState(NamedTuple):
    """The state of the recurrent form after a node.

    Attributes:
        window: inputs of the convolution at the last nodes, ``[Z, reach − 1, channels]``.
        steps: step sizes of the last node, ``[Z, H, S]``.
        hidden: ``[Z, H, N, P]``.
    """

    window: Tensor
    steps: Tensor
    hidden: Tensor


class Chimera(MixerParameters):
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
        edge_dim: features of an edge, for kinds with edge features.
        kind: the topologies that the mixer processes, see `chimera_ssm.nn.kinds`; any topology by default.
        conv: whether V, B and C go through a local convolution.
        resolvent: ``"exact"``, or ``"identity"`` for L = I with everything else unchanged, for ablations.
        init: initial values. With ``"average"``, C · B starts near one, so that the mix starts as an average, and the
            steps of the heads are spread evenly over their range; with ``"paper"``, all are drawn independently.
        solver: the fastest exact one if omitted.
        dt_min: smallest initial step.
        dt_max: largest initial step; both are multiplied by the kind's `step_scales`.

    Shapes: ``x [..., T, dim]``, ``edge_attr [..., E, edge_dim]``, ``node_mask [..., T]`` → ``[..., T, dim]``; leading
    dimensions of the others broadcast to those of ``x``.

    Example:
        >>> mixer = Chimera(64)
        >>> mixer(torch.randn(2, 3, 64), Graph(3, [[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([2, 3, 64])
    """

    def forward(
        self, x: Tensor, topology: Topology, edge_attr: Tensor | None = None, node_mask: Tensor | None = None
    ) -> Tensor:
        """Mix features ``[..., T, dim]`` along the topology.

        Args:
            x: features of the nodes.
            topology: T nodes, of the mixer's kind.
            edge_attr: features of the edges, in the topology's edge order.
            node_mask: True where there is a node, ``[..., T]``; outputs are zero and independent of ``x`` elsewhere.
        """
        lead, x, node_mask = self._flattened(x, topology, edge_attr, node_mask)
        z, features, steps, injections = self.in_proj(x).split(self.splits, dim=-1)
        features = F.silu(features) if self.conv is None else self.conv(features, topology, activate=True)
        if node_mask is not None:
            features = features.masked_fill(~node_mask.unsqueeze(-1), 0)
        steps, edge_steps = self._steps(steps), self._edge_steps(edge_attr, lead)
        terms = self.kind.terms(topology, steps, edge_steps, node_mask, self._injections(injections))
        V, B, C = self._heads(features)
        operands = self._operands(terms, V, B, C)
        y = mix_identity(*operands) if self.resolvent == "identity" else mix(*operands, self.solver)
        y = self.norm(y, V, z if z.shape[-1] else None)
        return self.out_proj(y.to(z.dtype)).reshape(*lead, topology.num_nodes, self.dim)

    def influence(
        self,
        node: int | Sequence[int],
        x: Tensor,
        topology: Topology,
        edge_attr: Tensor | None = None,
        node_mask: Tensor | None = None,
    ) -> Tensor:
        """The influence of every node on one: row ``node`` of the resolvents, ``Σ_d L_d[node, :]``, ``[..., H, T]``.

        Nodes without injection, such as masked ones, have no influence.

        Args:
            node: its index; for K indices the rows are ``[..., H, K, T]``.
            x: as for `forward`, like the other arguments.
            topology: of the mixer's kind.
            edge_attr: features of the edges.
            node_mask: True where there is a node.
        """
        lead, x, node_mask = self._flattened(x, topology, edge_attr, node_mask)
        nodes = [node] if isinstance(node, int) else list(node)
        for one in nodes:
            if not 0 <= one < topology.num_nodes:
                raise ValueError(f"nodes are numbered 0 to {topology.num_nodes - 1}, found {one}")
        _, _, steps, injections = self.in_proj(x).split(self.splits, dim=-1)
        steps, edge_steps = self._steps(steps), self._edge_steps(edge_attr, lead)
        terms = self.kind.terms(topology, steps, edge_steps, node_mask, self._injections(injections))
        unit = torch.zeros(1, topology.num_nodes, len(nodes), dtype=steps.dtype, device=x.device)
        unit[0, nodes, range(len(nodes))] = 1
        unit = unit.expand(self.num_heads, -1, -1)
        if self.resolvent == "identity":
            rows = [unit.expand(*a.weight.shape[:-1], -1, -1) for _, a in terms]
        else:
            rows = [solve(t.flip(), a.weight, unit, self.solver) for t, a in terms]
        rows = [row * (a.scale != 0).unsqueeze(-1) for row, (_, a) in zip(rows, terms, strict=True)]
        total = torch.stack(rows).sum(0).mT.reshape(*lead, self.num_heads, len(nodes), topology.num_nodes)
        return total.squeeze(-2) if isinstance(node, int) else total

    def step(self, x: Tensor, state: MixerState | None = None) -> tuple[Tensor, MixerState]:
        """The recurrent form on a directed line: the output of one node; equal to `forward`.

        Mixers with ``edge_dim`` or with an approximate solver have no recurrent form.

        Args:
            x: features of the next node, ``[..., dim]``.
            state: returned for the node before; ``None`` at the first.

        Returns:
            Features ``[..., dim]``, and the state for the next node.
        """
        check_recurrent(self.kind, self.edge_dim, self.solver)
        lead, x = x.shape[:-1], x.reshape(-1, self.dim)
        z, features, steps, injections = self.in_proj(x).split(self.splits, dim=-1)
        steps = self._steps(steps.unsqueeze(1)).squeeze(-1)
        reach = 1 if self.conv is None else self.conv.reach
        window = features.new_zeros(x.shape[0], reach - 1, features.shape[-1])
        window = torch.cat([window if state is None else state.window, features.unsqueeze(1)], dim=1)
        line = Line(window.shape[1])
        features = (F.silu(window) if self.conv is None else self.conv(window, line, activate=True))[:, -1:]
        V, B, C = (t[..., 0, :] for t in self._heads(features))
        B, C = (t[:, 0].repeat_interleave(self.num_heads // self.groups, dim=1).to(steps.dtype) for t in (B, C))
        V = V.to(steps.dtype)

        last_steps = steps.unsqueeze(-1) if state is None else torch.stack([state.steps, steps], dim=-1)
        injections = self._injections(injections.unsqueeze(1))
        ((_, (weight, scale)),) = self.kind.terms(Line(last_steps.shape[-1]), last_steps, None, None, injections)
        hidden = scale[..., -1, None, None] * B.unsqueeze(-1) * V.unsqueeze(-2)
        if state is not None and self.resolvent != "identity":
            hidden = hidden + weight.unsqueeze(-1) * state.hidden
        y = self.norm(C.unsqueeze(-2) @ hidden, V.unsqueeze(-2), z.unsqueeze(1) if z.shape[-1] else None)
        return self.out_proj(y.to(z.dtype)).reshape(*lead, self.dim), MixerState(window[:, 1:], steps, hidden)

    def _flattened(
        self, x: Tensor, topology: Topology, edge_attr: Tensor | None, node_mask: Tensor | None
    ) -> tuple[tuple[int, ...], Tensor, Tensor | None]:
        """Leading dimensions, ``x [Z, T, dim]`` with zeros where there is no node, and the mask ``[Z, T]``; checked."""
        check_kind(self.kind, topology)
        check_nodes(x, topology, self.dim, node_mask)
        check_edges(x, topology, self.edge_dim, edge_attr)
        lead = x.shape[:-2]
        x = x.reshape(-1, *x.shape[-2:])
        if node_mask is not None:
            node_mask = node_mask.expand(*lead, -1).reshape(-1, topology.num_nodes)
            x = x.masked_fill(~node_mask.unsqueeze(-1), 0)
        return lead, x, node_mask

    def _operands(
        self, terms: list[tuple[Topology, Adjacency]], V: Tensor, B: Tensor, C: Tensor
    ) -> tuple[list[Topology], list[Tensor], list[Tensor], list[Tensor], Tensor, list[Tensor]]:
        """Arguments of `mix` for ``Σ_d (L_d ⊙ C_d B̄_dᵀ) V / √d``, ``[Z, H, T, P]``, in the precision of the weights."""
        topologies, weights = [topology for topology, _ in terms], [a.weight for _, a in terms]
        sets = self.kind.sets if len(self.kind.sets) > 1 else self.kind.sets * len(terms)
        # The factor 1/√d goes into B̄, which is small.
        scales = [a.scale if len(terms) == 1 else a.scale / math.sqrt(len(terms)) for _, a in terms]
        Bs, Cs = B.unbind(1), C.unbind(1)
        return topologies, weights, [Cs[s] for s in sets], [Bs[s] for s in sets], V.to(scales[0].dtype), scales


def mix_identity(
    topologies: list[Topology],
    weights: list[Tensor],
    Cs: list[Tensor],
    Bs: list[Tensor],
    V: Tensor,
    scales: list[Tensor],
) -> Tensor:
    """`mix` with L = I: ``Σ_d β_d (C_d · B_d) V`` at each node; topologies and weights are not used."""
    heads = V.shape[1]
    dots = [(C.to(V.dtype) * B.to(V.dtype)).sum(-1) for C, B in zip(Cs, Bs, strict=True)]
    dots = [dot.repeat_interleave(heads // dot.shape[1], dim=1) for dot in dots]
    return torch.stack([s * dot for s, dot in zip(scales, dots, strict=True)]).sum(0).unsqueeze(-1) * V
