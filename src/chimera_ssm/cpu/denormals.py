"""Numbers next to zero: within kernels they are zero.

Influence decays along paths, beyond a hundred edges to less than the smallest normal number, 10⁻³⁸ in float32. What is
left is of no use to anybody, but processors may take a hundred cycles for each operation on it.
"""

import platform
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from chimera_ssm.cpu.kernel_cache import with_checked_cache

#: The control register of x86 as it is in every program, but that results and arguments that are denormal are zero.
_FLUSH = 0x1F80 | 0x8040
_X86 = platform.machine().lower() in ("x86_64", "amd64")


@intrinsic
def _exchange(typing, bits):
    """Set the control register of this thread, and return what it was."""

    def generate(context, builder, signature, args):
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer])
        before, after = (cgutils.alloca_once(builder, ir.IntType(32)) for _ in range(2))
        builder.store(args[0], after)
        for name, place in (("stmxcsr", before), ("ldmxcsr", after)):
            function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.sse.{name}")
            builder.call(function, [builder.bitcast(place, pointer)])
        return builder.load(before)

    return types.uint32(types.uint32), generate


@with_checked_cache
@njit(cache=True)
def _set_control(bits):
    return _exchange(types.uint32(bits))


def without_denormals(function: Callable[..., Any], *args: Any) -> None:
    """Call a kernel in this thread with denormal numbers taken for zero; on processors that we know how to ask."""
    if not _X86:
        function(*args)
        return
    before = _set_control(_FLUSH)
    try:
        function(*args)
    finally:
        _set_control(before)
