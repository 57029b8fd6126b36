"""Grids by Triton kernels, in Triton's interpreter: values and every gradient against dense float64."""

import pytest
import torch

pytest.importorskip("triton")

import chimera_ssm as chimera
from chimera_ssm.gpu.availability import is_interpreted
from chimera_ssm.gpu.launch import recorded_launches
from chimera_ssm.ops.reference import reference_mask, reference_mix
from chimera_ssm.ops.sweep import triton as sweep
from chimera_ssm.ops.sweep import triton_rows
from chimera_ssm.ops.terms import Term
from tests.chimera_ssm.ops.comparison import Computing, assert_same, check_half

interpreted = pytest.mark.skipif(not is_interpreted(), reason="make test-gpu runs it in Triton's interpreter")
ALL = (0, 0), (0, 1), (1, 0), (1, 1)


@pytest.fixture(autouse=True)
def computed_again(monkeypatch):
    """Products are not stored, as on larger grids."""
    monkeypatch.setattr(sweep, "stores", lambda *_: False)


def dags_of(shape, corners):
    return [chimera.GridDAG(shape, corner) for corner in corners]


def inputs(dags, Z=1, H=1, G=1, N=3, P=5, pairs=1):
    """Weights of any sign, some of them zero, Cs, Bs, V and scales; DAGs take turns with the pairs of C and B."""
    generator = torch.Generator().manual_seed(1)
    T, E = dags[0].num_nodes, dags[0].num_edges
    weights = [torch.rand(Z, H, E, generator=generator) * 0.9 - 0.35 for _ in dags]
    weights = [(w * (torch.arange(E) % 5 > 0)).requires_grad_() for w in weights]
    Cs, Bs = ([torch.randn(Z, G, T, N, generator=generator).requires_grad_() for _ in range(pairs)] for _ in range(2))
    V = torch.randn(Z, H, T, P, generator=generator).requires_grad_()
    scales = [torch.rand(Z, H, T, generator=generator).requires_grad_() for _ in dags]
    return weights, Cs, Bs, V, scales


def dense(dags, weights, Cs, Bs, V, scales):
    n = len(Cs)
    terms = zip(dags, weights, scales, strict=True)
    return sum(reference_mix(reference_mask(t, w), Cs[d % n], Bs[d % n], V, s) for d, (t, w, s) in enumerate(terms))


def check(dags, **sizes):
    """The mix is the sum of its dense truths."""
    given = inputs(dags, **sizes)
    weights, Cs, Bs, V, scales = given
    references = [
        x.detach().double().requires_grad_() if isinstance(x, torch.Tensor) else
        [y.detach().double().requires_grad_() for y in x] for x in given
    ]  # fmt: skip
    n = len(Cs)
    terms = [
        Term(t, w, Cs[d % n], Bs[d % n], s, "sweep")
        for d, (t, w, s) in enumerate(zip(dags, weights, scales, strict=True))
    ]
    assert sweep.supports(terms, V)
    assert_same(sweep.mix(terms, V), dense(dags, *references), flat(given), flat(references), torch.float32)


def flat(given):
    return [y for x in given for y in ([x] if isinstance(x, torch.Tensor) else x)]


@interpreted
@pytest.mark.parametrize("corner", ALL)
def test_every_corner(corner):
    check(dags_of((5, 7), [corner]))


@interpreted
@pytest.mark.parametrize(
    ("shape", "corners"), [((1, 1), ALL[:1]), ((1, 18), ALL[:2]), ((9, 1), ALL[2:3]), ((2, 33), ALL[2:3])]
)
def test_shapes(shape, corners):
    check(dags_of(shape, corners))


@interpreted
@pytest.mark.parametrize(("shape", "corners"), [((14, 14), ALL), ((17, 33), ALL[1:2])])
def test_larger_grids(shape, corners, monkeypatch):
    monkeypatch.setattr(
        triton_rows, "largest_blocks", lambda *_: (512, 16, 64)
    )  # few blocks, for the interpreter's sake
    check(dags_of(shape, corners))


@interpreted
def test_heads_in_groups_and_several_pairs_of_keys():
    check(dags_of((2, 3), ALL[:3]), H=4, G=2, pairs=2)
    check(dags_of((1, 2), ALL[:1]), Z=2, H=2)


@interpreted
@pytest.mark.parametrize(("N", "P"), [(70, 5), (3, 70)])
def test_several_blocks_of_states_and_channels(N, P):
    check(dags_of((3, 4), ALL[3:]), H=2, N=N, P=P)


@interpreted
def test_programs_share_their_tasks(monkeypatch):
    monkeypatch.setattr(triton_rows, "_PROGRAMS", 3)
    check(dags_of((5, 2), ALL[1:3]), H=2)


@interpreted
def test_mix_takes_16_bits_as_they_are(monkeypatch):
    calls = []
    monkeypatch.setattr(sweep, "_forward_operator", lambda *args: calls.append(args) or sweep.grid_forward(*args))
    check_half(dags_of((5, 7), ALL))
    ((V, weight, _, C, *_),) = calls
    assert (V.dtype, C.dtype, weight.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)


@interpreted
@pytest.mark.parametrize("solver", [None, chimera.Sweep()])
def test_mix_takes_the_kernels(solver, monkeypatch):
    calls = []
    monkeypatch.setattr(sweep, "_forward_operator", lambda *args: calls.append(args) or sweep.grid_forward(*args))
    dags = dags_of((4, 5), ALL)
    weights, (C,), (B,), V, scales = inputs(dags)
    y = chimera.mix(dags, weights, [C] * 4, [B] * 4, V, scales, solver)
    expected = dense(dags, *([x.double() for x in xs] for xs in (weights, [C], [B])), V.double(), scales)
    torch.testing.assert_close(y.double(), expected, rtol=1e-4, atol=1e-5)
    assert calls


LOW = pytest.mark.parametrize(
    ("dtype", "precision", "bounds"), [(torch.float32, "high", (6e-4, 1e-3)), (torch.bfloat16, "highest", (1e-2, 1e-2))]
)


@interpreted
@LOW
def test_low_precision(dtype, precision, bounds):
    check_low_precision(dtype, precision, bounds)


def check_low_precision(dtype, precision, bounds):
    """The relative root mean square error of y and of every gradient: products of two to three rounded products."""
    torch.manual_seed(0)
    dags = dags_of((5, 4), ALL[:2])
    weights, Cs, Bs, V, scales = inputs(dags, N=16, P=16, pairs=2)
    weight, scale, C, B = (torch.stack(x).detach() for x in (weights, scales, Cs, Bs))
    C, B, V = (x.detach().to(dtype) for x in (C, B, V))
    given, g = (V, weight, scale, C, B), torch.randn_like(V)
    references = [x.double().requires_grad_() for x in given]
    expected = dense(dags, *(references[k] for k in (1, 3, 4, 0, 2)))
    gradients = torch.autograd.grad(expected, references, g.double())
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        found = sweep.grid_forward(*given, *sweep.directions(dags))
        found_gradients = sweep.grid_backward(g, *given, *sweep.directions(dags))
    finally:
        torch.set_float32_matmul_precision(before)
    for k, (a, b) in enumerate(zip((found, *found_gradients), (expected, *gradients), strict=True)):
        assert (a.double() - b).pow(2).mean().sqrt() / b.pow(2).mean().sqrt() < bounds[k > 0]


@interpreted
def test_second_derivatives():
    dags = dags_of((2, 3), ALL[:1])
    weights, Cs, Bs, V, scales = inputs(dags)
    (first,) = torch.autograd.grad(chimera.mix(dags, weights, Cs, Bs, V, scales).pow(2).sum(), V, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), V)

    def apply(v):
        return chimera.mix(dags, weights, Cs, Bs, v, scales)

    _, squared = torch.autograd.functional.vjp(apply, V, apply(torch.ones_like(V)))
    torch.testing.assert_close(second, 2 * squared, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "topologies",
    [
        [chimera.GridDAG((65, 2))],
        [chimera.GridDAG((2, 65))],
        [chimera.GridDAG((2, 3, 2))],
        [chimera.GridDAG((6,))],
        [chimera.GridDAG((2, 3)), chimera.GridDAG((3, 2))],
        [chimera.GridDAG((2, 3)), chimera.Line(6)],
        [chimera.batch([chimera.GridDAG((2, 3)), chimera.GridDAG((2, 2))])],
    ],
)
def test_other_topologies_are_left_to_other_backends(topologies):
    empty = torch.empty(0)
    assert not sweep.supports([Term(t, empty, empty, empty, None, "sweep") for t in topologies], empty)


def test_launches():
    check_launches()


def check_launches():
    """With the launches of PyTorch, at most 12 forward and 20 backward."""
    dags = dags_of((14, 14), ALL)
    given = inputs(dags, H=4)
    on_meta = [x.to("meta") if isinstance(x, torch.Tensor) else [y.to("meta") for y in x] for x in given]
    weights, (C,), (B,), V, scales = on_meta
    terms = [Term(t, w, C, B, s, "sweep") for t, w, s in zip(dags, weights, scales, strict=True)]
    with recorded_launches() as launches:
        with Computing() as forward:
            y = sweep.mix(terms, V)
        n = len(launches)
        with Computing() as backward:
            torch.autograd.grad(y, [V, *weights, C, B, *scales], torch.empty_like(y), retain_graph=True)
    assert n + len(forward.names) <= 12
    assert len(launches) - n + len(backward.names) <= 20
