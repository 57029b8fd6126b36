"""Every solver on every topology it supports, values and every gradient, against the dense float64 truth."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.ops.reference import reference_mask, reference_mix
from tests import zoo
from tests.chimera_ssm.ops.comparison import (
    CASES,
    DTYPES,
    SOLVERS,
    G,
    H,
    N,
    P,
    Z,
    assert_close,
    assert_finite,
    assert_same,
    check_mix,
    features,
    inputs,
    truth,
)


@DTYPES
@pytest.mark.parametrize(("topology", "solver"), CASES)
def test_mask(topology, solver, engine, dtype):
    weight, *_ = inputs(topology, dtype)
    reference = weight.detach().double().requires_grad_()
    found = chimera.mask(topology, weight, solver)
    assert_same(found, truth(topology, reference, solver), [weight], [reference], dtype)


@DTYPES
@pytest.mark.parametrize(("topology", "solver"), CASES)
def test_solve(topology, solver, engine, dtype):
    weight, _, _, rhs, _ = inputs(topology, dtype)
    references = [x.detach().double().requires_grad_() for x in (weight, rhs)]
    found = chimera.solve(topology, weight, rhs, solver)
    assert_same(found, truth(topology, references[0], solver) @ references[1], [weight, rhs], references, dtype)


@DTYPES
@pytest.mark.parametrize(("topology", "solver"), CASES)
def test_mix(topology, solver, form, engine, dtype):
    check_mix(topology, solver, dtype)


@pytest.mark.parametrize(
    "dags",
    [
        chimera.Grid((4, 5)).dags(),
        chimera.UndirectedLine(70).dags(),
        chimera.batch([chimera.Grid((2, 3)), chimera.Grid((3, 3))]).dags(),
        (chimera.Line(12), chimera.Grid((3, 4)), zoo.random_dag(12, 20)),
    ],
    ids=["grid", "lines", "grids", "mixed"],
)
def test_mix_of_several_is_the_sum(dags, form, engine):
    if form == "mask" and len({len(d.parts) for d in dags}) > 1:
        pytest.skip("parts differ")
    shared_C, shared_B = (torch.randn(Z, G, dags[0].num_nodes, N, dtype=torch.float64) for _ in range(2))
    Cs = [shared_C, *(torch.randn_like(shared_C) for _ in dags[2:]), shared_C]
    Bs = [shared_B, *(torch.randn_like(shared_B) for _ in dags[2:]), shared_B]
    V = torch.randn(Z, H, dags[0].num_nodes, P, dtype=torch.float64)
    weights = [zoo.bounded_weights(d, Z, H, seed=k) for k, d in enumerate(dags)]
    scales = [torch.rand(Z, H, V.shape[2], dtype=torch.float64) for _ in dags]
    leaves = [*{id(x): x.requires_grad_() for x in (*weights, *Cs, *Bs, *scales, V)}.values()]
    found = chimera.mix(dags, weights, Cs, Bs, V, scales)
    expected = sum(
        reference_mix(reference_mask(d, w), c, b, V, s)
        for d, w, c, b, s in zip(dags, weights, Cs, Bs, scales, strict=True)
    )
    grad = torch.randn_like(expected)
    for a, b in zip(torch.autograd.grad(found, leaves, grad), torch.autograd.grad(expected, leaves, grad), strict=True):
        assert_close(a, b, torch.float64)
    assert_close(found, expected, torch.float64)


SMALL = ["line 2", "lines", "grid dag 5x8", "undirected lines", "grid 2x3x4", "directed graph with loops", "graphs"]


@pytest.mark.parametrize("label", SOLVERS)
@pytest.mark.parametrize("name", SMALL)
def test_gradcheck(name, label):
    topology, solver = zoo.ZOO[name], SOLVERS[label]
    if solver is not None and solver.unsupported_reason(topology) is not None:
        pytest.skip("not supported")
    weight = zoo.bounded_weights(topology, 1).requires_grad_()
    rhs = torch.randn(1, topology.num_nodes, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w, b: chimera.solve(topology, w, b, solver), (weight, rhs), fast_mode=True)


@pytest.mark.parametrize("name", SMALL)
def test_second_derivatives(name):
    topology = zoo.ZOO[name]
    weight = zoo.bounded_weights(topology, 1).requires_grad_()
    rhs = torch.randn(1, topology.num_nodes, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda w, b: chimera.solve(topology, w, b), (weight, rhs), fast_mode=True)


def test_leading_dimensions_broadcast():
    line = chimera.Line(6)
    weight, V = torch.rand(3, 5), torch.randn(2, 4, 3, 6, 5)
    C, B = torch.randn(4, 1, 6, 2), torch.randn(2, 1, 1, 6, 2)
    found = chimera.mix(line, weight, C, B, V)
    whole = chimera.mix(line, weight.expand(2, 4, 3, 5), C.expand(2, 4, 1, 6, 2), B.expand(2, 4, 1, 6, 2), V)
    torch.testing.assert_close(found, whole, rtol=0, atol=0)
    assert chimera.solve(line, weight, V).shape == V.shape
    assert chimera.mask(line, weight).shape == (3, 6, 6)


def test_gradients_may_be_expanded_or_strided():
    grid = chimera.GridDAG((3, 4))
    weight = zoo.bounded_weights(grid, 2).requires_grad_()
    rhs = torch.randn(2, 3, 12, dtype=torch.float64).mT.requires_grad_()
    x = chimera.solve(grid, weight, rhs)
    expanded = torch.autograd.grad(x.sum(), (weight, rhs), retain_graph=True)
    plain = torch.autograd.grad(x, (weight, rhs), torch.ones_like(x).contiguous())
    for a, b in zip(expanded, plain, strict=True):
        torch.testing.assert_close(a, b)


NOTHING = torch.empty(2, 0, dtype=torch.long)


@pytest.mark.parametrize("width", [0, 3, 16])
@pytest.mark.parametrize("channels", [0, 2, 16])
def test_no_edges_states_or_channels(form, engine, width, channels):
    """Without edges L = I; without states y = 0, and so are gradients; without channels there is nothing."""
    edgeless, union = chimera.Graph(4, NOTHING), chimera.batch([chimera.DAG(4, NOTHING), chimera.DAG(3, NOTHING)])
    for topologies in ([edgeless] * 2, [chimera.DAG(4, NOTHING), chimera.Line(4)], [union] * 2, [edgeless],
                       [chimera.UndirectedLine(6)], [zoo.ZOO["triangle"]], [chimera.GridDAG((2, 3))]):  # fmt: skip
        several = [inputs(t, torch.float64, width, channels) for t in topologies]
        weights, Cs, Bs, Vs, scales = zip(*several, strict=True)
        arguments = [*weights, *Cs, *Bs, *scales, Vs[0]]
        found = chimera.mix(topologies, weights, Cs, Bs, Vs[0], [100**d * s for d, s in enumerate(scales)])
        expected = sum(
            reference_mix(reference_mask(t, w), c, b, Vs[0], 100**d * s)
            for d, (t, w, c, b, s) in enumerate(zip(topologies, weights, Cs, Bs, scales, strict=True))
        )
        assert_same(found, expected, arguments, arguments, torch.float64)


@pytest.mark.parametrize("label", SOLVERS)
@pytest.mark.parametrize("name", ["line 2", "undirected lines", "grid dags", "graphs", "no edges"])
def test_solve_for_no_columns(name, label, engine):
    topology, solver = zoo.ZOO[name], SOLVERS[label]
    if solver is not None and solver.unsupported_reason(topology) is not None:
        pytest.skip("not supported")
    weight = zoo.bounded_weights(topology, 2).requires_grad_()
    rhs = torch.empty(2, topology.num_nodes, 0, dtype=torch.float64, requires_grad=True)
    x = chimera.solve(topology, weight, rhs, solver)
    assert x.shape == rhs.shape
    for grad in torch.autograd.grad(x.sum(), (weight, rhs)):
        assert not grad.any()


@pytest.mark.parametrize(
    "make",
    [
        lambda d: (chimera.Line(200), chimera.dag_adjacency(chimera.Line(200), d)),
        lambda d: (chimera.UndirectedLine(200), chimera.undirected_line_adjacency(chimera.UndirectedLine(200), d, d)),
        lambda d: (chimera.Grid((10, 20)), chimera.graph_adjacency(chimera.Grid((10, 20)), d, d.flip(-1))),
        lambda d: (chimera.GridDAG((10, 20)), chimera.dag_adjacency(chimera.GridDAG((10, 20)), d)),
    ],
    ids=["line", "undirected line", "graph", "grid dag"],
)
def test_steps_from_tiny_to_huge(make):
    exponent = torch.rand(2, 200, generator=torch.Generator().manual_seed(0)) * 9 - 6
    topology, (weight, scale) = make(10**exponent)
    assert_finite(topology, weight, *features(200), scale)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("topology", [chimera.Line(50), chimera.Grid((5, 10)), chimera.UndirectedLine(50)])
def test_half_precision_is_computed_in_float32(topology, dtype):
    steps = torch.rand(2, 50)
    weight, scale = chimera.graph_adjacency(topology, steps, steps)
    C, B, V = (x.to(dtype) for x in features(50))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = chimera.mix(topology, weight, C, B, V, scale)
    assert found.dtype == dtype
    expected = chimera.mix(topology, weight, C.float(), B.float(), V.float(), scale)
    torch.testing.assert_close(found, expected.to(dtype), rtol=0, atol=0)


def test_a_cpu_computes_16_bits_in_float32():
    given = [x.detach().bfloat16() for x in inputs(chimera.Line(9), torch.float32)]
    found = chimera.mix(chimera.Line(9), *given)
    assert found.dtype == torch.bfloat16
    assert found.equal(chimera.mix(chimera.Line(9), *(x.float() for x in given)).bfloat16())
