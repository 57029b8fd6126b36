"""Sparse LU on every topology, values and every gradient, against the dense truth."""

import numpy as np
import pytest
import torch
from torch.autograd import gradgradcheck

import chimera_ssm as chimera
from chimera_ssm.ops.reference import reference_mask, reference_mix
from chimera_ssm.ops.sparse_lu import cpu as lu
from chimera_ssm.ops.sparse_lu.cpu import mix_by_mask, mix_by_state
from chimera_ssm.ops.sparse_lu.cpu_factors import LDU as CompiledLDU
from chimera_ssm.ops.sparse_lu.torch import LDU
from chimera_ssm.ops.terms import Term
from tests import zoo

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4}
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
LARGER = {
    "several blocks": zoo.molecule(300),
    "several blocks, several parts": chimera.batch([zoo.random_graph(90, 150), zoo.molecule(200), zoo.random_tree(33)]),
}
TOPOLOGIES = pytest.mark.parametrize("topology", [pytest.param(t, id=n) for n, t in (zoo.ZOO | LARGER).items()])
SIZES = {  # Z, H, G, N, P
    "all odd": (3, 3, 1, 5, 7),
    "all one": (1, 1, 1, 1, 1),
    "more heads than lanes": (1, 9, 3, 17, 16),
    "every head its own": (2, 2, 2, 8, 33),
}


def assert_close(found, expected, dtype):
    assert found.dtype == dtype
    assert found.shape == expected.shape
    error = (found.double() - expected).abs().max() if expected.numel() else 0.0
    assert error <= TOLERANCE[dtype] * max(1.0, expected.abs().max().item() if expected.numel() else 0.0)


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inputs(topology, sizes, dtype=torch.float64):
    """Weight, C, B and V, and the gradient that comes in."""
    (Z, H, G, N, P), T = sizes, topology.num_nodes
    shapes = (Z, G, T, N), (Z, G, T, N), (Z, H, T, P), (Z, H, T, P)
    *tensors, grad = (random(*s, seed=k).to(dtype) for k, s in enumerate(shapes))
    weight = zoo.bounded_weights(topology, Z * H, dtype=dtype)
    return [x.requires_grad_() for x in (weight, *tensors)], grad


def results(topology, arguments, grad):
    """The mix and its gradients."""
    weight, C, B, V = arguments
    y = mix_by_mask([Term(topology, weight.unflatten(0, V.shape[:2]), C, B, None, "sparse_lu")], V)
    return [y, *torch.autograd.grad(y, arguments, grad)]


def expected_results(topology, arguments, grad):
    weight, C, B, V = arguments = [x.detach().double().requires_grad_() for x in arguments]
    L = reference_mask(topology, weight.view(*V.shape[:2], -1))
    y = reference_mix(L, C, B, V) + 0 * weight.sum()
    return [y, *torch.autograd.grad(y, arguments, grad.double())]


@DTYPES
@TOPOLOGIES
def test_solves(topology, dtype):
    weight = zoo.bounded_weights(topology, 3)
    L = reference_mask(topology, weight)
    factors = CompiledLDU(topology, weight.to(dtype))
    for K in (1, 8, 45):
        rhs = random(3, topology.num_nodes, K)
        assert_close(factors.apply(rhs.to(dtype), False), L @ rhs, dtype)
        assert_close(factors.apply(rhs.to(dtype), True), L.mT @ rhs, dtype)


def check_rows(topology, dtype):
    weight = zoo.bounded_weights(topology, 3)
    rows = CompiledLDU(topology, weight.to(dtype)).rows()
    expected, start = torch.zeros(rows.shape, dtype=torch.float64), 0
    for part, edges in zip(topology.parts, weight.split([p.num_edges for p in topology.parts], dim=1), strict=True):
        expected[:, start : start + part.num_nodes, : part.num_nodes] = reference_mask(part, edges)
        start += part.num_nodes
    assert_close(rows, expected, dtype)


@DTYPES
@TOPOLOGIES
def test_rows_of_the_inverse(topology, dtype):
    check_rows(topology, dtype)


@DTYPES
@pytest.mark.parametrize("size", [1, 7, 8, 9, 31, 32, 33, 63, 64, 65])
def test_rows_of_the_inverse_of_any_size(size, dtype):
    graphs = [zoo.random_graph(n, 2 * n, seed=n) for n in (size, max(1, size - 3), max(1, size // 2))]
    check_rows(chimera.batch(graphs), dtype)


def test_it_is_a_twin_of_the_plain_one():
    topology = zoo.ZOO["graphs"]
    weight, rhs = zoo.bounded_weights(topology, 10), random(10, topology.num_nodes, 40)
    plan = topology.tensors("factor_plan", weight.device)
    plain, compiled = LDU(topology.num_nodes, plan, weight), CompiledLDU(topology, weight)
    for transpose in (False, True):
        assert_close(compiled.apply(rhs, transpose), plain.apply(rhs, transpose), torch.float64)


@pytest.mark.parametrize("transpose", [False, True])
def test_right_hand_sides_of_any_strides(transpose):
    topology = zoo.ZOO["molecule"]
    factors = CompiledLDU(topology, zoo.bounded_weights(topology, 4))
    base = random(50, 90, 4)
    for rhs in (
        base.permute(2, 0, 1),
        base.permute(2, 0, 1)[:, :, 3:70:2],
        base[None, :, 5:38, 0].expand(4, -1, -1),
        base[:1, :1, :1].expand(4, 50, 6) if base.shape[2] == 1 else base[0, 0, 0].expand(4, 50, 6),
        base[:4, :50, :0],
    ):
        assert torch.equal(factors.apply(rhs, transpose), factors.apply(rhs.contiguous(), transpose))


@DTYPES
@TOPOLOGIES
def test_mixes(topology, dtype):
    arguments, grad = inputs(topology, (2, 4, 2, 3, 5), dtype)
    found, expected = results(topology, arguments, grad), expected_results(topology, arguments, grad)
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b, dtype)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("name", LARGER)
def test_mixes_of_odd_sizes(name, sizes):
    arguments, grad = inputs(LARGER[name], sizes)
    found, expected = results(LARGER[name], arguments, grad), expected_results(LARGER[name], arguments, grad)
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b, torch.float64)


def test_gradients_may_be_expanded_or_strided():
    topology = zoo.ZOO["graphs"]
    arguments, grad = inputs(topology, (2, 4, 2, 3, 5))
    for g in (grad[:, :, :1, :1].expand_as(grad), grad.mT.contiguous().mT, torch.ones(()).double().expand_as(grad)):
        for a, b in zip(results(topology, arguments, g), results(topology, arguments, g.contiguous()), strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("topology", [zoo.molecule(300), chimera.batch([zoo.molecule(150, s) for s in range(5)])])
def test_results_are_the_same_bit_by_bit_on_any_number_of_threads(topology, monkeypatch):
    arguments, grad = inputs(topology, (1, 4, 1, 16, 16), torch.float32)
    runs = []
    for threads in (1, 2, 2, 3):
        # Not torch.set_num_threads: once changed, MKL's batched inverses fail in the tests that follow.
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        factors = CompiledLDU(topology, arguments[0].detach())
        solved = factors.apply(grad[0].detach(), True)
        runs.append([*results(topology, arguments, grad), solved])
    for other in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(runs[0], other, strict=True))


def test_infinite_and_missing_numbers_are_handed_on():
    topology = chimera.Graph(3, [[0, 1], [1, 0]])
    weight = torch.ones(1, 2)
    assert not CompiledLDU(topology, weight).apply(torch.ones(1, 3, 1), False).isfinite().all()


@pytest.mark.parametrize(("N", "P", "groups"), [(1, 1, 1), (4, 16, 4), (9, 40, 2)])
@pytest.mark.parametrize(
    "graph",
    [
        zoo.molecule(40),
        chimera.Grid((5, 7)),
        zoo.random_graph(12, 40),
        chimera.batch([zoo.molecule(20), chimera.Graph(1, np.empty((2, 0), int)), zoo.random_tree(9)]),
    ],
    ids=str,
)
def test_states_of_graphs(graph, N, P, groups):
    """Several blocks of states and channels, the last of them not whole; strided and expanded alike."""
    torch.manual_seed(0)
    weight = zoo.bounded_weights(graph, 2, 4, dtype=torch.float64).requires_grad_()
    C, B = (torch.randn(2, graph.num_nodes, groups, N, dtype=torch.float64, requires_grad=True) for _ in range(2))
    V = torch.randn(2, graph.num_nodes, 4, P, dtype=torch.float64, requires_grad=True)
    inputs = [weight, C, B, V]

    def results(mix):
        y = mix(*(x.transpose(1, 2) for x in inputs[1:]))
        return [y, *torch.autograd.grad(y, inputs, torch.tensor(0.5, dtype=y.dtype).expand_as(y))]

    def mix(C, B, V):
        return lu.mix_by_state([Term(graph, weight, C, B, None, "sparse_lu")], V)

    found = results(mix)
    expected = results(lambda *x: chimera.mix(graph, weight, *x, solver=chimera.Dense()))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_a_sparse_graph_is_not_inverted():
    """Ten thousand nodes: a dense inverse would take 400 MB a head; the factors here are tiny."""
    grid = chimera.Grid((100, 100))
    assert isinstance(chimera.select_solver(grid).solver, chimera.SparseLU)
    steps = torch.rand(1, 10_000)
    weight, _ = chimera.graph_adjacency(grid, steps, steps)
    x = chimera.solve(grid, weight, torch.ones(1, 10_000, 1))
    influence = torch.zeros(1, 10_000).index_add(1, grid.edge_index[1], weight * x[:, grid.edge_index[0], 0])
    torch.testing.assert_close(x.squeeze(-1) - influence, torch.ones(1, 10_000), rtol=1e-4, atol=1e-4)


def test_a_graph_whose_factors_do_not_fit_is_refused(monkeypatch):
    from chimera_ssm.ops import select
    from chimera_ssm.ops.sparse_lu import solver as elimination

    for module in (elimination, select):
        monkeypatch.setattr(module, "MAX_ENTRIES", 5_000)
    torch.manual_seed(0)
    edges = torch.unique(torch.randint(0, 300, (2, 3000)), dim=1)
    graph = chimera.Graph(300, edges)
    with pytest.raises(chimera.TopologyError, match=r"entries.*GB.*Neumann"):
        chimera.solve(graph, torch.zeros(1, graph.num_edges), torch.zeros(1, 300, 1))
    weight = torch.full((1, graph.num_edges), 0.01)
    assert chimera.solve(graph, weight, torch.ones(1, 300, 1), chimera.Neumann(4)).isfinite().all()


@pytest.mark.parametrize("mix", [mix_by_mask, mix_by_state])
def test_strided_inputs_of_sparse_factors(mix):
    graph = zoo.random_graph(6, 9, directed=True, loops=True)
    (weight, C, B, V), _ = inputs(graph, (1, 2, 1, 2, 3))
    arguments = weight.unflatten(0, (1, 2)), *(x.mT.contiguous() for x in (C, B, V))
    leaves = tuple(x.detach().requires_grad_() for x in arguments)

    def of_transposes(weight, C, B, V):
        return mix([Term(graph, weight, C.mT, B.mT, None, "sparse_lu")], V.mT)

    assert gradgradcheck(of_transposes, leaves, fast_mode=True)
