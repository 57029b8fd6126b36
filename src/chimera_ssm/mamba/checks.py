"""Checks of the arguments of Mamba-2's functions: an error says what was found, what was expected and what to do."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad


def check_scan(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    dt_bias: Tensor | None,
    initial_states: Tensor | None,
    dt_limit: Any,
) -> None:
    """Refuse arguments of a scan that do not fit each other."""
    check_shape("x", x, ("batch", "seqlen", "nheads", "headdim"), [None] * 4)
    check_shape("B", B, ("batch", "seqlen", "ngroups", "dstate"), [*x.shape[:2], None, None])
    (batch, length, heads, width), (groups, size) = x.shape, B.shape[2:]
    if 0 in x.shape or 0 in B.shape:
        raise ValueError(f"x and B must not be empty, found {list(x.shape)} and {list(B.shape)}")
    if heads % groups:
        raise ValueError(f"nheads must be divisible by ngroups, found {heads} heads and {groups} groups")
    check_shape("C", C, ("batch", "seqlen", "ngroups", "dstate"), list(B.shape))
    check_shape("dt", dt, ("batch", "seqlen", "nheads"), [batch, length, heads])
    check_shape("A", A, ("nheads",), [heads])
    if isinstance(D, Tensor) and D.dim() == 2:
        check_shape("D", D, ("nheads", "headdim"), [heads, width])
    elif D is not None:
        check_shape("D", D, ("nheads",), [heads])
    if z is not None:
        check_shape("z", z, ("batch", "seqlen", "nheads", "headdim"), list(x.shape))
    if dt_bias is not None:
        check_shape("dt_bias", dt_bias, ("nheads",), [heads])
    if initial_states is not None:
        names = ("batch", "nheads", "headdim", "dstate")
        check_shape("initial_states", initial_states, names, [batch, heads, width, size])
    if not isinstance(dt_limit, (tuple, list)) or len(dt_limit) != 2 or not dt_limit[0] <= dt_limit[1]:
        raise ValueError(f"dt_limit must be a smallest and a largest step, found {dt_limit!r}")


def check_shape(name: str, x: Any, names: tuple[str, ...], expected: list[int | None]) -> None:
    """Refuse what is not a floating point tensor of this shape; ``None`` stands for any size."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        found = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"{name} must be a floating point tensor, found {found}")
    if x.dim() != len(expected) or any(n is not None and n != m for n, m in zip(expected, x.shape, strict=True)):
        sizes = ", ".join(n if m is None else f"{n} = {m}" for n, m in zip(names, expected, strict=True))
        raise ValueError(f"{name} must have shape [{sizes}], found {list(x.shape)}")


def check_sequences(x: Tensor, seq_idx: Any, cu_seqlens: Any, varlen: bool) -> tuple[Tensor | None, list[int]]:
    """Where sequences start after another one, ``[batch, seqlen]``, and the lengths of those of ``cu_seqlens``."""
    starts = None if seq_idx is None else check_seq_idx(seq_idx, x)
    if cu_seqlens is None:
        if varlen:
            raise ValueError("return_varlen_states needs cu_seqlens, found None: give the bounds of the sequences")
        return starts, []
    sizes = check_cu_seqlens(cu_seqlens, starts, x)
    if starts is None:
        starts = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        starts[0, list(accumulate(sizes[:-1]))] = True
    return starts, sizes


def check_seq_idx(seq_idx: Any, x: Tensor) -> Tensor:
    """Where a sequence starts after another one, ``[batch, seqlen]``."""
    if not isinstance(seq_idx, Tensor) or seq_idx.is_floating_point() or seq_idx.shape != x.shape[:2]:
        found = f"{seq_idx.dtype}, {list(seq_idx.shape)}" if isinstance(seq_idx, Tensor) else type(seq_idx).__name__
        raise ValueError(f"seq_idx must be integers of shape {list(x.shape[:2])} = [batch, seqlen], found {found}")
    before, after = seq_idx[:, :-1], seq_idx[:, 1:]
    if (after < before).any():
        row, place = (after < before).nonzero()[0].tolist()
        raise ValueError(
            f"seq_idx must not decrease, found {before[row, place]} before {after[row, place]} at step {place + 1} of "
            f"row {row}: number the sequences of a row from left to right"
        )
    return pad(after > before, (1, 0))


def sequence_lengths(cu_seqlens: Any) -> list[int]:
    """Lengths of the sequences with these bounds."""
    if not isinstance(cu_seqlens, Tensor) or cu_seqlens.is_floating_point() or cu_seqlens.dim() != 1:
        found = f"{cu_seqlens.dtype}, {list(cu_seqlens.shape)}" if isinstance(cu_seqlens, Tensor) else repr(cu_seqlens)
        raise ValueError(f"cu_seqlens must be integers of shape [num_sequences + 1], found {found}")
    bounds = cu_seqlens.tolist()
    sizes = [b - a for a, b in pairwise(bounds)]
    if not sizes or bounds[0] != 0 or min(sizes) < 1:
        raise ValueError(f"cu_seqlens must increase from 0 to seqlen, found {bounds}")
    return sizes


def check_cu_seqlens(cu_seqlens: Any, starts: Tensor | None, x: Tensor) -> list[int]:
    """Lengths of the sequences of a single row."""
    sizes = sequence_lengths(cu_seqlens)
    if x.shape[0] != 1:
        raise ValueError(f"cu_seqlens needs a batch of one row, found {x.shape[0]} rows: use seq_idx")
    bounds = cu_seqlens.tolist()
    if bounds[-1] != x.shape[1]:
        raise ValueError(f"cu_seqlens must end with seqlen = {x.shape[1]}, found {bounds}")
    if starts is not None and (found := starts[0].nonzero().flatten().tolist()) != bounds[1:-1]:
        raise ValueError(
            f"seq_idx and cu_seqlens must divide the row alike, found starts {found} and {bounds[1:-1]}: leave one of "
            "them out"
        )
    return sizes


def check_step(
    state: Tensor,
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    dt_bias: Tensor | None,
    indices: Tensor | None,
) -> None:
    """Refuse arguments of a step that do not fit each other, ``state [batch, nheads, dim, dstate]``."""
    check_shape("x", x, ("batch", "nheads", "dim"), [None] * 3)
    batch, heads, width = x.shape
    rows = batch if indices is None else None
    check_shape("state", state, ("batch", "nheads", "dim", "dstate"), [rows, heads, width, None])
    size = state.shape[-1]
    check_shape("dt", dt, ("batch", "nheads", "dim"), [batch, heads, width])
    check_shape("A", A, ("nheads", "dim", "dstate"), [heads, width, size])
    check_shape("B", B, ("batch", "ngroups", "dstate"), [batch, None, size])
    check_shape("C", C, ("batch", "ngroups", "dstate"), list(B.shape))
    if 0 in x.shape or 0 in B.shape:
        raise ValueError(f"x and B must not be empty, found {list(x.shape)} and {list(B.shape)}")
    if heads % B.shape[1]:
        raise ValueError(f"nheads must be divisible by ngroups, found {heads} heads and {B.shape[1]} groups")
    if z is not None:
        check_shape("z", z, ("batch", "nheads", "dim"), list(x.shape))
    for name, y in (("D", D), ("dt_bias", dt_bias)):
        if y is not None:
            check_shape(name, y, ("nheads", "dim"), [heads, width])
    if indices is None:
        return
    if not isinstance(indices, Tensor) or indices.is_floating_point() or indices.shape != x.shape[:1]:
        found = f"{indices.dtype}, {list(indices.shape)}" if isinstance(indices, Tensor) else type(indices).__name__
        raise ValueError(f"state_batch_indices must be integers of shape [batch = {batch}], found {found}")
    if indices.min() < 0 or indices.max() >= state.shape[0] or indices.unique().numel() < batch:
        raise ValueError(
            f"state_batch_indices must be different rows of state, 0 to {state.shape[0] - 1}, found {indices.tolist()}"
        )


def check_conv(x: Tensor, weight: Tensor, bias: Tensor | None, initial_states: Tensor | None, activation: Any) -> None:
    """Refuse arguments of a causal convolution that do not fit each other."""
    check_shape("x", x, ("batch", "dim", "seqlen"), [None] * 3)
    batch, dim, _ = x.shape
    check_shape("weight", weight, ("dim", "width"), [dim, None])
    if 0 in x.shape or 0 in weight.shape:
        raise ValueError(f"x and weight must not be empty, found {list(x.shape)} and {list(weight.shape)}")
    if bias is not None:
        check_shape("bias", bias, ("dim",), [dim])
    if initial_states is not None:
        check_shape("initial_states", initial_states, ("batch", "dim", "width - 1"), [batch, dim, weight.shape[1] - 1])
    if activation not in (None, "silu", "swish"):
        raise ValueError(
            f"activation must be None, 'silu' or 'swish', found {activation!r}: apply others to the result"
        )


def check_conv_state(conv_state: Tensor, x: Tensor, weight: Tensor) -> None:
    """Refuse a state of a convolution that does not fit."""
    check_shape("conv_state", conv_state, ("batch", "dim", "width - 1 or more"), [*x.shape[:2], None])
    if conv_state.shape[-1] < weight.shape[1] - 1:
        raise ValueError(
            f"conv_state must hold the last {weight.shape[1] - 1} inputs or more, found {conv_state.shape[-1]}"
        )
