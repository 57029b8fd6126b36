"""`Chimera`, the mixer: features of nodes, mixed along the paths of a topology."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from chimera_ssm.adjacency import Adjacency
from chimera_ssm.gpu.availability import is_gpu
from chimera_ssm.nn.kinds import check_kind
from chimera_ssm.nn.mixer_checks import check_dtype, check_edge_weights, check_edges, check_nodes, check_recurrent
from chimera_ssm.nn.recurrence import MixerState, RecurrentMixer
from chimera_ssm.ops import mix, solve
from chimera_ssm.topology import Line, Topology


class Chimera(RecurrentMixer):
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
        dt_limit: smallest and largest step, to which steps are clamped; not at all if omitted.
        bias: whether the two projections have biases.
        eps: added to the mean square in the norm.

    Shapes: ``x [..., T, dim]``, ``edge_attr [..., E, edge_dim]``, ``node_mask [..., T]`` → ``[..., T, dim]``; leading
    dimensions of the others broadcast to those of ``x``.

    Example:
        >>> mixer = Chimera(64)
        >>> mixer(torch.randn(2, 3, 64), Graph(3, [[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([2, 3, 64])
    """

    def forward(
        self,
        x: Tensor,
        topology: Topology,
        edge_attr: Tensor | None = None,
        node_mask: Tensor | None = None,
        state: MixerState | None = None,
        return_state: bool = False,
        edge_weight: Tensor | None = None,
    ) -> Any:
        """Mix features ``[..., T, dim]`` along the topology.

        With ``state`` or ``return_state``, the topology is a `Line`, or a batch of lines, that is continued: a line
        processed in parts, each from the state of the part before, gives the result of the whole, and gradients flow
        through the states. Masked nodes are skipped: the result is that of the line without them. Without states, a
        masked node inside of a line loses its edges, as in other topologies.

        Args:
            x: features of the nodes.
            topology: T nodes, of the mixer's kind.
            edge_attr: features of the edges, in the topology's edge order.
            node_mask: True where there is a node, ``[..., T]``; outputs are zero and independent of ``x`` elsewhere.
            state: returned for the nodes before; ``None`` at the first.
            return_state: whether to return the state after the last node.
            edge_weight: w ≥ 0 of each edge, ``[..., E]``, for `OnGraph`: multiplies A before it is normalized, and the
                messages of the convolution. An edge of weight zero has the effect of no edge.

        Returns:
            Features ``[..., T, dim]``; with ``return_state``, a pair of them and a `MixerState`.
        """
        if continued := state is not None or return_state:
            check_recurrent(self.kind, self.edge_dim, self.solver)
        weights = self._edge_weights(x, topology, edge_weight, node_mask)
        lead, x, node_mask = self._flattened(x, topology, edge_attr, node_mask)
        if continued:
            y, state = self._continue(x, topology, node_mask, state)
            y = y.reshape(*lead, topology.num_nodes, self.dim)
            return (y, state) if return_state else y
        z, features, steps, injections = self._projected(x, node_mask)
        edge_steps = self._edge_steps(edge_attr, lead)
        terms = self._terms(topology, steps, edge_steps, node_mask, injections, **weights)
        V, B, C = self._heads(self._convolved(features, topology, node_mask, **weights))
        operands = self._operands(terms, V, B, C)
        y = mix_identity(*operands) if self.resolvent == "identity" else mix(*operands, self.solver)
        return self._outputs(y, V, z, node_mask).reshape(*lead, topology.num_nodes, self.dim)

    def influence(
        self,
        node: int | Sequence[int],
        x: Tensor,
        topology: Topology,
        edge_attr: Tensor | None = None,
        node_mask: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """The influence of every node on one: row ``node`` of the resolvents, ``Σ_d L_d[node, :]``, ``[..., H, T]``.

        Nodes without injection, such as masked ones, have no influence.

        Args:
            node: its index; for K indices the rows are ``[..., H, K, T]``.
            x: as for `forward`, like the other arguments.
            topology: of the mixer's kind.
            edge_attr: features of the edges.
            node_mask: True where there is a node.
            edge_weight: of each edge.
        """
        lead, rows, terms = self._rows(node, x, topology, edge_attr, node_mask, edge_weight)
        rows = [row * (a.scale != 0).unsqueeze(-1) for row, (_, a) in zip(rows, terms, strict=True)]
        total = torch.stack(rows).sum(0).mT.reshape(*lead, self.num_heads, -1, topology.num_nodes)
        return total.squeeze(-2) if isinstance(node, int) else total

    def edge_influence(
        self,
        node: int | Sequence[int],
        x: Tensor,
        topology: Topology,
        edge_attr: Tensor | None = None,
        node_mask: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """The influence on one node through each edge: ``L[node, i] A_ij`` for the edge j → i, ``[..., H, E]``.

        It is how often a random walk against the edges, which starts at ``node``, is expected to cross the edge; the
        edges that leave node j sum to the influence of j on ``node``, minus one for ``node`` itself. The arguments are
        those of `influence`; for K nodes the result is ``[..., H, K, E]``.
        """
        lead, rows, terms = self._rows(node, x, topology, edge_attr, node_mask, edge_weight)
        if terms[0][0] is not topology:
            raise ValueError(f"{type(self.kind).__name__} has no single A on the given edges; use OnGraph or influence")
        ((_, target), weight) = topology.tensors("edge_index", x.device), terms[0][1].weight
        weight = weight if self.resolvent == "exact" else torch.zeros_like(weight)
        total = (rows[0].mT[..., target] * weight.unsqueeze(-2)).reshape(*lead, self.num_heads, -1, topology.num_edges)
        return total.squeeze(-2) if isinstance(node, int) else total

    def _rows(
        self,
        node: int | Sequence[int],
        x: Tensor,
        topology: Topology,
        edge_attr: Tensor | None,
        node_mask: Tensor | None,
        edge_weight: Tensor | None,
    ) -> tuple[tuple[int, ...], list[Tensor], list[tuple[Topology, Adjacency]]]:
        """Leading dimensions; rows of each term's L, as columns ``[Z, H, T, K]``; and the terms."""
        weights = self._edge_weights(x, topology, edge_weight, node_mask)
        lead, x, node_mask = self._flattened(x, topology, edge_attr, node_mask)
        nodes = [node] if isinstance(node, int) else list(node)
        for one in nodes:
            if not 0 <= one < topology.num_nodes:
                raise ValueError(f"nodes are numbered 0 to {topology.num_nodes - 1}, found {one}")
        _, _, steps, injections = self._projected(x, node_mask)
        edge_steps = self._edge_steps(edge_attr, lead)
        terms = self._terms(topology, steps, edge_steps, node_mask, injections, **weights)
        unit = torch.zeros(1, topology.num_nodes, len(nodes), dtype=steps.dtype, device=x.device)
        unit[0, nodes, range(len(nodes))] = 1
        unit = unit.expand(self.num_heads, -1, -1)
        if self.resolvent == "identity":
            return lead, [unit.expand(*a.weight.shape[:-1], -1, -1) for _, a in terms], terms
        return lead, [solve(t.flip(), a.weight, unit, self.solver) for t, a in terms], terms

    def step(self, x: Tensor, state: MixerState | None = None) -> tuple[Tensor, MixerState]:
        """`forward` of one node of a directed line, in the recurrent form.

        Mixers with ``edge_dim`` or with an approximate solver have no recurrent form.

        Args:
            x: features of the next node, ``[..., dim]``.
            state: returned for the node before; ``None`` at the first.

        Returns:
            Features ``[..., dim]``, and the state for the next node.
        """
        y, state = self(x.unsqueeze(-2), Line(1), state=state, return_state=True)
        return y.squeeze(-2), state

    def _flattened(
        self, x: Tensor, topology: Topology, edge_attr: Tensor | None, node_mask: Tensor | None
    ) -> tuple[tuple[int, ...], Tensor, Tensor | None]:
        """Leading dimensions, ``x [Z, T, dim]`` with zeros where there is no node, and the mask ``[Z, T]``; checked."""
        check_kind(self.kind, topology)
        check_nodes(x, topology, self.dim, node_mask)
        check_dtype("x", x, self.in_proj)
        check_edges(x, topology, self.edge_dim, edge_attr)
        if edge_attr is not None:
            check_dtype("edge_attr", edge_attr, self.edge_proj)
        lead = x.shape[:-2]
        x = x.reshape(-1, *x.shape[-2:])
        if node_mask is not None:
            node_mask = node_mask.expand(*lead, -1).reshape(-1, topology.num_nodes)
            x = x.masked_fill(~node_mask.unsqueeze(-1), 0)
        return lead, x, node_mask

    def _edge_weights(
        self, x: Tensor, topology: Topology, edge_weight: Tensor | None, node_mask: Tensor | None
    ) -> dict[str, Tensor]:
        """Edge weights ``[Z, E]`` as the argument of the kind's `terms` and of its convolution; none if omitted."""
        if node_mask is not None and getattr(self.kind, "aggregate", "sum") == "mean":
            check_nodes(x, topology, self.dim, node_mask)
            source, target = topology.tensors("edge_index", x.device)
            alive = (node_mask[..., source] & node_mask[..., target]).to(x.dtype)  # a mean counts who is present
            edge_weight = alive if edge_weight is None else edge_weight * alive
        if edge_weight is None:
            return {}
        check_kind(self.kind, topology)
        check_edge_weights(x, topology, self.kind, edge_weight)
        lead = x.shape[:-2]
        return {"edge_weight": edge_weight.expand(*lead, -1).reshape(math.prod(lead), topology.num_edges)}

    def _operands(
        self, terms: list[tuple[Topology, Adjacency]], V: Tensor, B: Tensor, C: Tensor
    ) -> tuple[list[Topology], list[Tensor], list[Tensor], list[Tensor], Tensor, list[Tensor]]:
        """Arguments of `mix` for ``Σ_d (L_d ⊙ C_d B̄_dᵀ) V / √d``, ``[Z, H, T, P]``, in the precision of the weights.

        On GPUs, in that of V, which kernels take in 16 bits.
        """
        topologies, weights = [topology for topology, _ in terms], [a.weight for _, a in terms]
        sets = self.kind.sets if len(self.kind.sets) > 1 else self.kind.sets * len(terms)
        # The factor 1/√d goes into B̄, which is small.
        scales = [a.scale if len(terms) == 1 else a.scale / math.sqrt(len(terms)) for _, a in terms]
        Bs, Cs = B.unbind(1), C.unbind(1)
        V = V if is_gpu(V.device) else V.to(scales[0].dtype)
        return topologies, weights, [Cs[s] for s in sets], [Bs[s] for s in sets], V, scales


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
