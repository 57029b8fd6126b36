"""The recurrent form of a mixer: a directed line that is continued from the state after the nodes before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from chimera_ssm.nn.mixer_checks import check_lines
from chimera_ssm.nn.mixer_parameters import MixerParameters
from chimera_ssm.ops import mix
from chimera_ssm.ops.broadcasting import without_autocast
from chimera_ssm.topology import Line, Topology


class MixerState(NamedTuple):
    """The state of a mixer after the nodes of a directed line, from which further nodes continue.

    There is a row for each line: Z is the product of the leading dimensions and, on a batch of lines, of its parts.

    Attributes:
        window: inputs of the convolution at the last nodes, ``[Z, reach − 1, channels]``; zeros before the first node.
        steps: step sizes of the last node, ``[Z, H, S]``.
        hidden: ``Σ_j L_tj B̄_j V_jᵀ`` at the last node t, ``[Z, H, N, P]``.
        present: whether there has been a node, ``[Z]``; ``None`` if there has been one in each row.
    """

    window: Tensor
    steps: Tensor
    hidden: Tensor
    present: Tensor | None = None

    def select(self, index: Tensor) -> MixerState:
        """The rows ``index`` of all tensors, as a beam search needs them."""
        return self.map(lambda x: x.index_select(0, index.to(x.device)))

    def map(self, change: Callable[[Tensor], Tensor]) -> MixerState:
        """``change`` of all tensors."""
        present = None if self.present is None else change(self.present)
        return MixerState(change(self.window), change(self.steps), change(self.hidden), present)


class RecurrentMixer(MixerParameters):
    """`MixerParameters` with the recurrent form on a directed line."""

    def _continue(
        self, x: Tensor, topology: Topology, node_mask: Tensor | None, state: MixerState | None
    ) -> tuple[Tensor, MixerState]:
        """Features ``[Z, T, dim]`` of the nodes after ``state``, and the state after them; masked nodes are skipped."""
        check_lines(topology)
        self._check_state(state, x.shape[0] * topology.num_parts)
        return continue_parts(self._continue_line, x, topology, node_mask, state)

    def _continue_line(
        self, x: Tensor, node_mask: Tensor | None, state: MixerState | None
    ) -> tuple[Tensor, MixerState]:
        """`_continue` on one line."""
        if node_mask is None:
            return self._continue_present(x, None, state)
        nodes = torch.arange(x.shape[1], device=x.device)
        order = torch.where(node_mask, nodes, nodes + x.shape[1]).argsort(dim=1).unsqueeze(-1)  # masked nodes last
        present = node_mask.gather(1, order.squeeze(-1))
        y, state = self._continue_present(x.gather(1, order.expand_as(x)), present, state)
        return y.gather(1, order.argsort(dim=1).expand_as(y)), state

    def _continue_present(
        self, x: Tensor, node_mask: Tensor | None, state: MixerState | None
    ) -> tuple[Tensor, MixerState]:
        """`_continue` where the masked nodes are the last ones of each row."""
        z, features, steps, injections = self._projected(x, node_mask)
        reach = self._reach
        before = features.new_zeros(x.shape[0], reach - 1, features.shape[-1]) if state is None else state.window
        window = torch.cat([before.to(features.dtype), features], dim=1)
        features = self._convolved(window, Line(window.shape[1]), None)[:, reach - 1 :]
        V, B, C = self._heads(features if node_mask is None else features.masked_fill(~node_mask.unsqueeze(-1), 0))
        if state is not None:
            steps = torch.cat([state.steps.to(steps.dtype).unsqueeze(-1), steps], dim=-1)
        weight, scale = self._weights_from(steps, injections, node_mask, state)
        hidden = None if state is None else state.hidden.to(scale.dtype)
        y, hidden = self._mix_from(weight, C[:, 0], B[:, 0], V.to(scale.dtype), scale, hidden)
        return self._outputs(y, V, z, node_mask), _last(window, steps, hidden, reach, node_mask, state)

    def _weights_from(
        self, steps: Tensor, injections: Tensor | None, node_mask: Tensor | None, state: MixerState | None
    ) -> tuple[Tensor, Tensor]:
        """Weights ``[Z, H, T]`` from each node's predecessor, 0 where there is none, and β ``[Z, H, T]``.

        ``steps`` begin with those of the last node before the line if there is a ``state``. A masked node has
        β = 0 and weight 1: it leaves the state as it is.
        """
        present = node_mask
        if state is not None:
            injections = None if injections is None else F.pad(injections, (1, 0))
            present = _with_before(node_mask, state.present, steps)
        ((_, (weight, scale)),) = self._terms(Line(steps.shape[-1]), steps, None, present, injections)
        weight = F.pad(weight, (1, 0)) if state is None else weight
        weight = weight if node_mask is None else weight.masked_fill(~node_mask.unsqueeze(1), 1)
        return weight, scale if state is None else scale[..., 1:]

    def _mix_from(
        self, weight: Tensor, C: Tensor, B: Tensor, V: Tensor, scale: Tensor, hidden: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """``y [Z, H, T, P]`` and the state after the last node."""
        B, C = B.to(V.dtype), C.to(V.dtype)
        per_head = self.num_heads // self.groups
        if self.resolvent == "identity":
            weight = torch.zeros_like(weight)
        entering = None if hidden is None else weight[..., :1, None] * hidden
        if V.shape[2] == 1:
            b, c = (t.repeat_interleave(per_head, dim=1) for t in (B, C))
            with without_autocast(V):
                injected = (scale.unsqueeze(-1) * b).mT @ V
                hidden = injected if entering is None else injected + entering
                return c @ hidden, hidden
        return mix(Line(V.shape[2]), weight[..., 1:], C, B, V, scale, initial_state=entering, return_state=True)

    @property
    def _reach(self) -> int:
        """The number of nodes in the window of the convolution."""
        return 1 if self.conv is None else self.conv.reach

    def _check_state(self, state: MixerState | None, rows: int) -> None:
        """Raise a ValueError unless a state is of this mixer and has a row for each line."""
        if state is None:
            return
        expected = {
            "window": [rows, self._reach - 1, self.splits[1]],
            "steps": [rows, self.num_heads, self.kind.num_steps],
            "hidden": [rows, self.num_heads, self.state_size, self.width // self.num_heads],
        }
        found: Any = type(state).__name__
        if isinstance(state, MixerState):
            found = {name: list(getattr(state, name).shape) for name in expected}
        if found != expected:
            raise ValueError(
                f"state must be a MixerState that this mixer returned for as many lines, of shapes {expected}, found "
                f"{found}"
            )


def continue_parts(
    continue_line: Callable[..., tuple[Tensor, MixerState]],
    x: Tensor,
    topology: Topology,
    node_mask: Tensor | None,
    state: MixerState | None,
) -> tuple[Tensor, MixerState]:
    """``continue_line(x, node_mask, state)`` for each part of a batch of lines, one after the other."""
    parts = topology.num_parts
    if parts == 1:
        return continue_line(x, node_mask, state)
    sizes = [part.num_nodes for part in topology.parts]
    masks = [None] * parts if node_mask is None else node_mask.split(sizes, dim=1)
    before = [None] * parts
    if state is not None:
        before = [state.map(lambda s, k=k: s[k::parts]) for k in range(parts)]
    done = [continue_line(*one) for one in zip(x.split(sizes, dim=1), masks, before, strict=True)]
    states = [state for _, state in done]
    joined: list[Any] = [
        None if tensors[0] is None else torch.stack(tensors, dim=1).flatten(0, 1)
        for tensors in zip(*states, strict=True)
    ]
    return torch.cat([y for y, _ in done], dim=1), MixerState(*joined)


def _with_before(node_mask: Tensor | None, before: Tensor | None, steps: Tensor) -> Tensor | None:
    """The mask ``[Z, T]`` with the node before the line in front, ``[Z, T + 1]``."""
    if node_mask is None and before is None:
        return None
    Z, T = steps.shape[0], steps.shape[-1] - 1
    before = torch.ones(Z, dtype=torch.bool, device=steps.device) if before is None else before
    rest = before.new_ones(Z, T) if node_mask is None else node_mask
    return torch.cat([before.unsqueeze(1), rest], dim=1)


def _last(
    window: Tensor, steps: Tensor, hidden: Tensor, reach: int, node_mask: Tensor | None, state: MixerState | None
) -> MixerState:
    """The state after the last node of each row that is not masked."""
    if node_mask is None:
        return MixerState(window[:, window.shape[1] - reach + 1 :], steps[..., -1], hidden)
    count = node_mask.sum(1)
    places = count.unsqueeze(1) + torch.arange(reach - 1, device=count.device)
    last = count if state is not None else (count - 1).clamp(min=0)
    present = count > 0
    if state is not None:
        present = None if state.present is None else present | state.present
    return MixerState(
        window.gather(1, places.unsqueeze(-1).expand(-1, -1, window.shape[-1])),
        steps.gather(-1, last[:, None, None, None].expand(*steps.shape[:-1], 1)).squeeze(-1),
        hidden,
        present,
    )
