"""Helpers for autograd functions around kernels: saved arguments, second derivatives, padding, memory, arrays."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from chimera_ssm.cpu.availability import disable_kernels
from chimera_ssm.cpu.workspace import workspace


def save_arguments(ctx: Any, arguments: Sequence[Any], *more: Tensor) -> None:
    """Save all arguments of a function for its backward pass, see `double_backward_via`, and ``more`` tensors.

    ``ctx.saved_tensors`` has an entry for each argument, ``None`` where that is no tensor, and then ``more``.
    """
    ctx.others = [None if isinstance(x, Tensor) else x for x in arguments]
    ctx.save_for_backward(*[x if isinstance(x, Tensor) else None for x in arguments], *more)


def double_backward_via(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a backward pass differentiable that autograd cannot trace.

    If second derivatives may be wanted, the forward pass is repeated by PyTorch and differentiated there. The arguments
    must have been saved by `save_arguments`.

    Args:
        plain: the forward pass in operations of PyTorch, with the same arguments.
    """

    def decorate(backward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(backward)
        def run(ctx: Any, *grads: Tensor) -> Any:
            return _plain_backward(plain, ctx, grads) if torch.is_grad_enabled() else backward(ctx, *grads)

        return run

    return decorate


def in_float32(plain: Callable[..., Any]) -> Callable[..., Any]:
    """``plain`` on float32 in place of 16 bits; the first result has the dtype of the first argument."""

    def run(first: Tensor, *arguments: Any) -> Any:
        results = plain(*(_at_least_float32(x) for x in (first, *arguments)))
        if isinstance(results, Tensor):
            return results.to(first.dtype)
        return results[0].to(first.dtype), *results[1:]

    return run


def _at_least_float32(x: Any) -> Any:
    return x.float() if isinstance(x, Tensor) and x.dtype in (torch.bfloat16, torch.float16) else x


def _plain_backward(plain: Callable[..., Any], ctx: Any, grads: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors  # with kernels enabled: checkpointed tensors are recomputed by the same kernels
    # A view of each, so that a tensor that is given twice has a gradient for either place.
    pairs = zip(ctx.others, saved, strict=False)
    arguments = [other if x is None else x.view_as(x) for other, x in pairs]
    wanted = [x for x, needed in zip(arguments, ctx.needs_input_grad, strict=True) if needed]
    with disable_kernels(), torch.autocast(grads[0].device.type, enabled=False):
        results = plain(*arguments)
        results = [results] if isinstance(results, Tensor) else results
        dependent = [(y, g) for y, g in zip(results, grads, strict=True) if y is not None and y.requires_grad]
        of, along = [y for y, _ in dependent], [g for _, g in dependent]
        found = iter(torch.autograd.grad(of, wanted, along, create_graph=True, allow_unused=True))
    return tuple(next(found) if needed else None for needed in ctx.needs_input_grad)


def split_args(tensors: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    """Weights, scales, Cs and Bs out of one tuple."""
    n = len(tensors) // 4
    return tensors[:n], tensors[n : 2 * n], tensors[2 * n : 3 * n], tensors[3 * n :]


def padded(x: Tensor, multiple: int) -> Tensor:
    """``x`` with zeros after its last dimension up to a multiple, contiguous."""
    missing = -x.shape[-1] % multiple
    return (pad(x, (0, missing)) if missing else x).contiguous()


def joined_weights(weights: Sequence[Tensor]) -> Tensor:
    """Weights ``[Z, H, E]`` of several topologies in one, ``[D·Z, H, E]``, with zeros where one has fewer edges."""
    size = max([w.shape[-1] for w in weights])
    return torch.cat([w if w.shape[-1] == size else pad(w, (0, size - w.shape[-1])) for w in weights])


def not_a_view(result: Tensor) -> Tensor:
    """The result of a function of autograd, which PyTorch would refuse to change in place if it were a view."""
    return result.detach()


def empty(*shape: int, like: Tensor) -> Tensor:
    """An uninitialised tensor on the CPU with the dtype of ``like``, in memory of the `Workspace` if it is large."""
    return workspace.empty(shape, like.dtype)


def empty_like(x: Tensor) -> Tensor:
    """`empty` for the shape of ``x [Z, H, T, P]``, laid out as ``[Z, T, H, P]`` if x is."""
    Z, H, T, P = x.shape
    if H > 1 and x.stride(1) < x.stride(2):
        return empty(Z, T, H, P, like=x).transpose(1, 2)
    return empty(Z, H, T, P, like=x)


def zeros(*shape: int, like: Tensor) -> Tensor:
    """`empty`, filled with zeros."""
    return empty(*shape, like=like).zero_()


def summed(x: Tensor) -> Tensor:
    """``Σ_k x[k]``, in the memory of ``x`` if there is one k only."""
    return x[0] if x.shape[0] == 1 else torch.sum(x, 0, out=empty(*x.shape[1:], like=x))


_backward_only: ContextVar[bool] = ContextVar("chimera_backward_only", default=False)


@contextmanager
def backward_only() -> Generator[None]:
    """Within this context mixes save what their backward passes need and compute nothing: their values are undefined.

    For those who want gradients and have had the values already. What follows a mix must be linear in it.
    """
    token = _backward_only.set(True)
    try:
        yield
    finally:
        _backward_only.reset(token)


def values_wanted() -> bool:
    """Whether a mix has to compute its values, see `backward_only`."""
    return not _backward_only.get()


class Once:
    """A function that makes each tensor's result once, so that what is given twice is also worked on once."""

    def __init__(self, make: Any):
        self.make, self.made = make, {}

    def __call__(self, x: Tensor) -> Tensor:
        if id(x) not in self.made:
            self.made[id(x)] = self.make(x)
        return self.made[id(x)]


def arrays_of(*tensors: Tensor) -> list[Any]:
    """Contiguous arrays of the same numbers, in the same memory where that is contiguous."""
    return [x.detach().contiguous().numpy() for x in tensors]


def flatten(x: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """The memory of ``x [..., K]`` in one row, and the strides of all dimensions but K; copied if columns are apart."""
    if x.stride(-1) != 1:
        x = x.contiguous()
    extent = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return x.as_strided((extent,), (1,)), x.stride()[:-1]
