"""Vectors of eight numbers inside Numba kernels.

Numba's arrays carry no alias information, so that LLVM guards or gives up the vectorisation of short loops. Kernels
that matter are therefore written on vectors: `load` eight neighbours, compute with ``+``, ``-``, ``*`` (fused where the
machine can), ``/`` and `exp`, `store` them. Works for float32 and float64 alike. Offsets count elements of the
flattened array, which must be contiguous; nothing is checked.
"""

import math
import operator

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, overload, register_model

from chimera_ssm.solvers.kernels.jit import inlined

WIDTH = 8
#: Products and sums may be fused; nothing else is assumed, so that NaNs stay NaNs.
_FLAGS = ("contract",)
_INT32 = ir.IntType(32)


class Vector(types.Type):
    """The Numba type of eight numbers of one dtype."""

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(name=f"Vector({dtype})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        super().__init__(manager, vector, ir.VectorType(manager.lookup(vector.dtype).get_value_type(), WIDTH))


def _address(context, builder, signature, args, kind):
    """Pointer to the vector at element ``args[1]`` of array ``args[0]``, and the alignment of its elements."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    pointer = builder.gep(array.data, [args[1]])
    return builder.bitcast(pointer, context.get_value_type(kind).as_pointer()), kind.dtype.bitwidth // 8


def _splat(builder, x):
    kind = ir.VectorType(x.type, WIDTH)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), x, ir.Constant(_INT32, 0))
    lanes = ir.Constant(ir.VectorType(_INT32, WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), lanes)


@intrinsic
def load(typing, array, offset):
    """Eight elements of an array from ``offset`` on."""
    kind = Vector(array.dtype)

    def generate(context, builder, signature, args):
        pointer, align = _address(context, builder, signature, args, kind)
        return builder.load(pointer, align=align)

    return kind(array, types.intp), generate


@intrinsic
def at(typing, array, offset):
    """One element of an array: ``array.ravel()[offset]`` without a check or a turn for negative numbers."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load(builder.gep(data, [args[1]]), align=array.dtype.bitwidth // 8)

    return array.dtype(array, types.intp), generate


@intrinsic
def put(typing, array, offset, number):
    """Write one element of an array: ``array.ravel()[offset] = number``, unchecked."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        builder.store(args[2], builder.gep(data, [args[1]]), align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), generate


@intrinsic
def store(typing, array, offset, vector):
    """Write eight elements of an array from ``offset`` on."""

    def generate(context, builder, signature, args):
        pointer, align = _address(context, builder, signature, args, vector)
        builder.store(args[2], pointer, align=align)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic
def store_past(typing, array, offset, vector):
    """`store` past the caches, for what nobody reads soon; only where `aligned` allows."""

    def generate(context, builder, signature, args):
        pointer, size = _address(context, builder, signature, args, vector)
        stored = builder.store(args[2], pointer, align=WIDTH * size)
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


@intrinsic
def splat(typing, number):
    """Eight times the same number."""

    def generate(context, builder, signature, args):
        return _splat(builder, args[0])

    return Vector(number)(number), generate


@intrinsic
def total(typing, vector):
    """The sum of the eight."""

    def generate(context, builder, signature, args):
        v, width = args[0], WIDTH
        while width > 1:
            width //= 2
            halves = [
                builder.shuffle_vector(v, ir.Constant(v.type, ir.Undefined), _lanes(start, width))
                for start in (0, width)
            ]
            v = builder.fadd(*halves, flags=_FLAGS)
        return builder.extract_element(v, ir.Constant(_INT32, 0))

    return vector.dtype(vector), generate


@intrinsic
def add_totals(typing, array, offset, a, b, c, d):
    """Add the sums of four vectors to four elements of an array from ``offset`` on."""

    def generate(context, builder, signature, args):
        def shuffle(x, y, lanes):
            return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(_INT32, len(lanes)), lanes))

        def halves(x, y):
            """Both vectors' halves added: four lanes of x, four of y."""
            low, high = shuffle(x, y, [0, 1, 2, 3, 8, 9, 10, 11]), shuffle(x, y, [4, 5, 6, 7, 12, 13, 14, 15])
            return builder.fadd(low, high, flags=_FLAGS)

        p, q = halves(args[2], args[3]), halves(args[4], args[5])
        even, odd = shuffle(p, q, [0, 2, 8, 10, 4, 6, 12, 14]), shuffle(p, q, [1, 3, 9, 11, 5, 7, 13, 15])
        pairs = builder.fadd(even, odd, flags=_FLAGS)  # a a c c b b d d
        sums = builder.fadd(shuffle(pairs, pairs, [0, 4, 2, 6]), shuffle(pairs, pairs, [1, 5, 3, 7]), flags=_FLAGS)
        array = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = builder.bitcast(builder.gep(array.data, [args[1]]), sums.type.as_pointer())
        align = a.dtype.bitwidth // 8
        builder.store(builder.fadd(builder.load(pointer, align=align), sums, flags=_FLAGS), pointer, align=align)
        return context.get_dummy_value()

    return types.void(array, types.intp, a, b, c, d), generate


def _lanes(start, width):
    return ir.Constant(ir.VectorType(_INT32, width), list(range(start, start + width)))


def _binary(instruction):
    @intrinsic
    def operation(typing, x, y):
        kind = x if isinstance(x, Vector) else y

        def generate(context, builder, signature, args):
            x, y = (
                a if isinstance(t, Vector) else _splat(builder, context.cast(builder, a, t, kind.dtype))
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
        bits = ir.VectorType(ir.IntType(vector.dtype.bitwidth), WIDTH)

        def constant(x):
            return ir.Constant(ir.VectorType(number, WIDTH), [float(x)] * WIDTH)

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
        power = builder.shl(builder.bitcast(shifted, bits), ir.Constant(bits, [mantissa] * WIDTH))
        return times(y, builder.bitcast(power, y.type))

    return vector(vector), generate


@inlined
def sigmoid(x):
    """``1 / (1 + exp(−x))`` of each."""
    return 1 / (1 + exp(-1 * x))
