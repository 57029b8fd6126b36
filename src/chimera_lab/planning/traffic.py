"""Count the FLOPs, memory traffic and live memory of the operations that PyTorch executes."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count, shape_wrapper

from chimera_lab.planning.mixes import MIX, MIX_BACKWARD, MixCall, zeros_of

#: Operations that read only as much of their first tensor as they write.
_PICKING = ("index", "index_select", "gather", "embedding", "constant_pad_nd")
#: Operations in place that read and write only as much of their first tensor as they read of the others.
_ADDING = ("index_add_", "index_copy_", "index_put_", "scatter_add_")
#: Operations that only reserve memory.
_ALLOCATING = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")


def convolution_backward_flops(grad: Any, x: Any, weight: Any, *options: Any, **_: Any) -> int:
    """The forward FLOPs for each requested gradient; PyTorch's formula ignores groups."""
    return 2 * prod(grad) * prod(weight[1:]) * sum(options[-1][:2])


def attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """FLOPs of flash attention on CPUs, for which PyTorch has no formula."""
    return sdpa_flop_count(query, key, value)


def attention_backward_flops(grad: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """The same, backward."""
    return sdpa_backward_flop_count(grad, query, key, value)


#: Formulas in addition to those of PyTorch, or instead of them.
FORMULAS = {
    torch.ops.aten.convolution_backward: convolution_backward_flops,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_flops,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward_flops,
}
#: Products that may also be limited by memory: convolutions with few channels in a group, and flash attention.
_MEMORY_BOUND = (torch.ops.aten.convolution, *FORMULAS)


def flops_of(kind: Any, args: Any, kwargs: Any, out: Any) -> float | None:
    """FLOPs of a matrix product, from its arguments and its result; ``None`` of other operations."""
    formula = shape_wrapper(FORMULAS[kind]) if kind in FORMULAS else flop_registry.get(kind)
    return None if formula is None else formula(*args, **(kwargs or {}), out_val=out)


def is_memory_bound(kind: Any) -> bool:
    """Whether the traffic of a product counts as well."""
    return kind in _MEMORY_BOUND


class Traffic(TorchDispatchMode):
    """Counts bytes read and written, FLOPs and live memory of operations. Views and reshapes cost nothing.

    Args:
        mixes: if given, calls of the operators of mixes are listed here instead; they return zeros.
    """

    def __init__(self, mixes: list[MixCall] | None = None) -> None:
        super().__init__()
        self.mixes = mixes
        self.half_flops = self.single_flops = self.bytes_moved = self.product_bytes = 0.0
        self.operations = self.live_bytes = self.activation_bytes = self.largest_bytes = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        if self.mixes is not None and func in (MIX, MIX_BACKWARD):
            self.mixes += [MixCall.of(args)] if func is MIX else []
            out = zeros_of(func, args)
            for x in tree_leaves(out):
                self._track(x)
            return out
        out = func(*args, **(kwargs or {}))
        read = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        written = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
        storages = {x.untyped_storage()._cdata for x in read}
        if all(x.untyped_storage()._cdata in storages for x in written) and not func._schema.is_mutable:
            return out
        for x in written:
            self._track(x)
        if func.overloadpacket.__name__ in _ALLOCATING:
            return out
        self.operations += 1
        self._count(func, args, kwargs, out, read, written)
        return out

    def end_of_forward(self) -> None:
        """Record the live memory, which is saved for the backward pass."""
        self.activation_bytes = self.live_bytes

    def _count(self, func: Any, args: Any, kwargs: Any, out: Any, read: list[Tensor], written: list[Tensor]) -> None:
        kind = func.overloadpacket
        flops = flops_of(kind, args, kwargs, out)
        if flops is not None:
            if written[0].dtype in (torch.float16, torch.bfloat16):
                self.half_flops += flops
            else:
                self.single_flops += flops
            if not is_memory_bound(kind):
                self.product_bytes += sum(tensor_bytes(x) for x in (*read, *written))
                return
        if kind.__name__ in _PICKING:
            read = written
        if kind.__name__ in _ADDING:
            read = read[1:]
            written = 2 * [max(read, key=tensor_bytes)]
        self.bytes_moved += sum(tensor_bytes(x) for x in (*read, *written))

    def _track(self, x: Tensor) -> None:
        storage = x.untyped_storage()
        if storage._cdata in self._known:
            return
        self._known.add(storage._cdata)
        self.live_bytes += storage.nbytes()
        self.largest_bytes = max(self.largest_bytes, storage.nbytes())
        weakref.finalize(storage, self._release, storage._cdata, storage.nbytes())

    def _release(self, which: int, size: int) -> None:
        self._known.discard(which)
        self.live_bytes -= size


def tensor_bytes(x: Tensor) -> int:
    """Bytes of a tensor's storage that are read; an expanded tensor is read once."""
    return min(x.numel() * x.element_size(), x.untyped_storage().nbytes())
