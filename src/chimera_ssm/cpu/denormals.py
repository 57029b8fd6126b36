"""Denormal numbers are zero within kernels.

Influence decays along paths, beyond a hundred edges to less than the smallest normal number, 10⁻³⁸ in float32. Such
numbers do not matter, but processors may take a hundred cycles for each operation on them.
"""

import platform

from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from chimera_ssm.cpu.kernel_cache import with_checked_cache

#: The default control register of x86, with flags that treat denormal results and arguments as zero.
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


class denormals_as_zero:
    """A context in which this thread treats denormal numbers as zero, on processors with a known control register.

    A class, because entering it must cost less than a microsecond.
    """

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = _set_control(_FLUSH) if _X86 else 0

    def __exit__(self, *_: object) -> None:
        if _X86:
            _set_control(self.before)
