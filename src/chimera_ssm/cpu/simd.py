"""Vectors of sixteen numbers, or fewer, inside Numba kernels.

Numba's arrays carry no alias information, so that LLVM guards or gives up the vectorization of short loops. Kernels
that matter are therefore written on vectors: `vload` sixteen neighbours, compute with ``+``, ``-``, ``*`` (fused where
the machine can), ``/`` and `exp`, `vstore` them. Sixteen float32 are one register of AVX-512, two of AVX2, four of
NEON: LLVM divides them as the machine needs. Works for float32 and float64 alike. Offsets count elements of the
flattened array, which must be contiguous; nothing is checked.
"""

import math
import operator

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, overload, register_model

from chimera_ssm.cpu.compilation import inlined

WIDTH = 16
#: Products and sums may be fused; nothing else is assumed, so that NaNs stay NaNs.
_FLAGS = ("contract",)
_INT32 = ir.IntType(32)


class Vector(types.Type):
    """The Numba type of a vector of ``width`` numbers of one dtype."""

    def __init__(self, dtype, width=WIDTH):
        self.dtype, self.width = dtype, width
        super().__init__(name=f"Vector({dtype}, {width})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        super().__init__(manager, vector, ir.VectorType(manager.lookup(vector.dtype).get_value_type(), vector.width))


def _address(context, builder, signature, args, kind):
    """Pointer to the vector at element ``args[1]`` of array ``args[0]``, and the alignment of its elements."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    pointer = builder.gep(array.data, [args[1]])
    return builder.bitcast(pointer, context.get_value_type(kind).as_pointer()), kind.dtype.bitwidth // 8


def _splat(builder, x, width):
    kind = ir.VectorType(x.type, width)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), x, ir.Constant(_INT32, 0))
    return _shuffle(builder, first, ir.Constant(kind, ir.Undefined), [0] * width)


def _shuffle(builder, x, y, lanes):
    """These lanes of x and y; lanes of y are numbered after those of x."""
    return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(_INT32, len(lanes)), lanes))


def _loader(width):
    @intrinsic
    def vload(typing, array, offset):
        kind = Vector(array.dtype, width)

        def generate(context, builder, signature, args):
            pointer, align = _address(context, builder, signature, args, kind)
            return builder.load(pointer, align=align)

        return kind(array, types.intp), generate

    return vload


def _splatter(width):
    @intrinsic
    def splat(typing, number):
        def generate(context, builder, signature, args):
            return _splat(builder, args[0], width)

        return Vector(number, width)(number), generate

    return splat


#: Sixteen, eight or four elements of an array from an offset on: ``vload(array, offset)``.
vload, vload_8, vload_4 = _loader(WIDTH), _loader(8), _loader(4)
#: Sixteen, eight or four times the same number.
splat, splat_8, splat_4 = _splatter(WIDTH), _splatter(8), _splatter(4)


@intrinsic
def load(typing, array, offset):
    """One element of an array: ``array.ravel()[offset]`` without bounds checks or negative indices."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load(builder.gep(data, [args[1]]), align=array.dtype.bitwidth // 8)

    return array.dtype(array, types.intp), generate


@intrinsic
def store(typing, array, offset, number):
    """Write one element of an array: ``array.ravel()[offset] = number``, unchecked."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        builder.store(args[2], builder.gep(data, [args[1]]), align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), generate


@intrinsic
def vstore(typing, array, offset, vector):
    """Write a vector to the elements of an array from ``offset`` on."""

    def generate(context, builder, signature, args):
        pointer, align = _address(context, builder, signature, args, vector)
        builder.store(args[2], pointer, align=align)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic
def vstore_nontemporal(typing, array, offset, vector):
    """`vstore` past the caches, for data that is not read soon; only at offsets that `aligned` allows."""

    def generate(context, builder, signature, args):
        pointer, size = _address(context, builder, signature, args, vector)
        stored = builder.store(args[2], pointer, align=vector.width * size)
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(_INT32, 1)]))
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic
def _address_of(typing, array):
    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, context.get_value_type(types.intp))

    return types.intp(array), generate


@inlined
def aligned(array, offset):
    """The first offset from ``offset`` on at which a whole vector is aligned."""
    size = WIDTH * array.itemsize
    return offset + (-(_address_of(array) + offset * array.itemsize) % size) // array.itemsize


@inlined
def aligned_empty(size, dtype):
    """Uninitialised memory for ``size`` numbers, aligned to vectors: none of them lies across two lines of a cache."""
    memory = np.empty(size + WIDTH, dtype)
    first = aligned(memory, 0)
    return memory[first : first + size]


@inlined
def clear(array, start, stop):
    """Zeros from ``start`` to ``stop``, a whole number of vectors."""
    for k in range(start, stop, WIDTH):
        vstore(array, k, splat(array.dtype.type(0)))


@intrinsic
def horizontal_sum(typing, vector):
    """The sum of all lanes."""

    def generate(context, builder, signature, args):
        v, width = args[0], vector.width
        while width > 1:
            width //= 2
            halves = [_shuffle(builder, v, v, list(range(start, start + width))) for start in (0, width)]
            v = builder.fadd(*halves, flags=_FLAGS)
        return builder.extract_element(v, ir.Constant(_INT32, 0))

    return vector.dtype(vector), generate


@intrinsic
def largest(typing, x, bound):
    """``max(|x|, bound)`` of vectors, lane by lane; NaN where either is NaN or x is infinite."""

    def generate(context, builder, signature, args):
        kind = context.get_value_type(x)
        name = f"llvm.fabs.v{x.width}f{x.dtype.bitwidth}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), name)
        size = builder.call(function, [args[0]])
        found = builder.select(builder.fcmp_unordered(">=", args[1], size), args[1], size)
        return builder.fadd(found, builder.fmul(args[0], ir.Constant(kind, [0.0] * x.width)))

    return x(x, bound), generate


@intrinsic
def add_totals(typing, array, offset, a, b, c, d):
    """Add the sums of four vectors of sixteen to four elements of an array from ``offset`` on."""

    def generate(context, builder, signature, args):
        def folded(x, y, *fours):
            """The sum of two choices of fours, 0 to 3 of x and 4 to 7 of y."""
            left, right = ([4 * four + lane for four in choice for lane in range(4)] for choice in fours)
            return builder.fadd(_shuffle(builder, x, y, left), _shuffle(builder, x, y, right), flags=_FLAGS)

        def rotated(x, lanes):
            """Each four of x, added to itself with its lanes in this order."""
            order = [four + lane for four in range(0, WIDTH, 4) for lane in lanes]
            return builder.fadd(x, _shuffle(builder, x, x, order), flags=_FLAGS)

        ab, cd = (folded(x, y, (0, 1, 4, 5), (2, 3, 6, 7)) for x, y in (args[2:4], args[4:6]))
        each = rotated(rotated(folded(ab, cd, (0, 2, 4, 6), (1, 3, 5, 7)), (2, 3, 0, 1)), (1, 0, 3, 2))
        sums = _shuffle(builder, each, each, [0, 4, 8, 12])
        array = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = builder.bitcast(builder.gep(array.data, [args[1]]), sums.type.as_pointer())
        align = a.dtype.bitwidth // 8
        builder.store(builder.fadd(builder.load(pointer, align=align), sums, flags=_FLAGS), pointer, align=align)
        return context.get_dummy_value()

    return types.void(array, types.intp, a, b, c, d), generate


@intrinsic
def transpose_4(typing, array, offset, stride, a, b, c, d):
    """Transpose four vectors: write sixteen rows of four, ``stride`` apart, from ``offset`` on."""

    def generate(context, builder, signature, args):
        def interleaved(x, y, lanes):
            """Of each four, these two lanes of x and of y: x y x y."""
            return _shuffle(builder, x, y, [f + k + of for f in range(0, WIDTH, 4) for k in lanes for of in (0, WIDTH)])

        def paired(x, y, lanes):
            """The same as x x y y."""
            return _shuffle(builder, x, y, [f + k + of for f in range(0, WIDTH, 4) for of in (0, WIDTH) for k in lanes])

        data, align = context.make_array(signature.args[0])(context, builder, args[0]).data, a.dtype.bitwidth // 8
        for half, lanes in enumerate(((0, 1), (2, 3))):
            left, right = interleaved(args[3], args[4], lanes), interleaved(args[5], args[6], lanes)
            for k, neighbours in enumerate(((0, 1), (2, 3))):
                columns = paired(left, right, neighbours)
                for four in range(WIDTH // 4):
                    row = ir.Constant(args[2].type, 4 * four + 2 * half + k)
                    x = _shuffle(builder, columns, columns, list(range(4 * four, 4 * four + 4)))
                    place = builder.gep(data, [builder.add(args[1], builder.mul(row, args[2]))])
                    builder.store(x, builder.bitcast(place, x.type.as_pointer()), align=align)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, a, b, c, d), generate


@intrinsic
def fma(typing, x, y, z):
    """``x y + z`` of vectors; x may be a number.

    Fused where the machine can, this product and no other: of ``a b + c d`` either may be, and where d was computed
    last, fusing ``c d`` has the shorter latency.
    """
    kind = z

    def generate(context, builder, signature, args):
        first = args[0]
        if not isinstance(x, Vector):
            first = _splat(builder, context.cast(builder, first, x, kind.dtype), kind.width)
        vector = context.get_value_type(kind)
        name = f"llvm.fmuladd.v{kind.width}f{kind.dtype.bitwidth}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)
        return builder.call(function, [first, args[1], args[2]])

    return kind(x, y, z), generate


def _binary(instruction):
    @intrinsic
    def operation(typing, x, y):
        kind = x if isinstance(x, Vector) else y

        def generate(context, builder, signature, args):
            x, y = (
                a if isinstance(t, Vector) else _splat(builder, context.cast(builder, a, t, kind.dtype), kind.width)
                for a, t in zip(args, signature.args, strict=True)
            )
            return getattr(builder, instruction)(x, y, flags=_FLAGS)

        return kind(x, y), generate

    return operation


def _overload(symbol, instruction):
    operation = _binary(instruction)

    @overload(symbol)
    def overloaded(x, y):
        if isinstance(x, Vector) or isinstance(y, Vector):
            return lambda x, y: operation(x, y)
        return None


for _symbol, _instruction in (
    (operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"), (operator.truediv, "fdiv"),
):  # fmt: skip
    _overload(_symbol, _instruction)


@intrinsic
def exp(typing, vector):
    """``exp`` of each, to a few units of the last place; arguments beyond ±87 (±708 in float64) count as these."""
    terms, mantissa, bias, bound = (8, 23, 127, 87.0) if vector.dtype == types.float32 else (14, 52, 1023, 708.0)

    def generate(context, builder, signature, args):
        number = context.get_value_type(vector.dtype)
        bits = ir.VectorType(ir.IntType(vector.dtype.bitwidth), vector.width)

        def constant(x):
            return ir.Constant(ir.VectorType(number, vector.width), [float(x)] * vector.width)

        def plus(x, y):
            return builder.fadd(x, y, flags=_FLAGS)

        def times(x, y):
            return builder.fmul(x, constant(y) if isinstance(y, float) else y, flags=_FLAGS)

        x = args[0]
        for order, end in ((">", bound), ("<", -bound)):
            x = builder.select(builder.fcmp_ordered(order, x, constant(end)), constant(end), x)  # NaNs stay
        # exp(x) = 2ⁿ exp(r), |r| ≤ log(2)/2. Adding a large number rounds to n, and leaves n + bias in the last bits.
        large = 1.5 * 2.0**mantissa + bias
        shifted = plus(times(x, 1 / math.log(2)), constant(large))
        n = builder.fsub(shifted, constant(large))
        high = 355 / 512  # n times this is exact; the rest of log(2) includes what a float64 of it lacks
        r = plus(plus(x, times(n, -high)), times(n, high - math.log(2) - 2.3190468138462996e-17))
        y = constant(1 / math.factorial(terms - 1))
        for k in range(terms - 2, -1, -1):
            y = plus(times(y, r), constant(1 / math.factorial(k)))
        power = builder.shl(builder.bitcast(shifted, bits), ir.Constant(bits, [mantissa] * vector.width))
        return times(y, builder.bitcast(power, y.type))

    return vector(vector), generate


@inlined
def sigmoid(x):
    """``1 / (1 + exp(−x))`` of each."""
    return 1 / (1 + exp(-1 * x))
