"""Extremes of size and value: finite results and gradients."""

import pytest
import torch

import chimera_ssm as chimera


def assert_finite(topology, weight, *features):
    arguments = [x.detach().requires_grad_() for x in (weight, *features)]
    y = chimera.mix(topology, *arguments)
    assert y.isfinite().all()
    for grad in torch.autograd.grad(y.square().mean(), arguments):
        assert grad.isfinite().all()
    return y


def features(num_nodes, dtype=torch.float32, heads=2):
    return [torch.randn(n, num_nodes, k, dtype=dtype) for n, k in ((1, 4), (1, 4), (heads, 4))]


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


@pytest.mark.parametrize("value", [0.0, -0.4, 1.0, -1.0])
def test_weights_zero_or_negative_on_lines(value):
    line = chimera.Line(300)
    y = assert_finite(line, torch.full((2, 299), value), *features(300))
    assert y.shape == (2, 300, 4)
    undirected = chimera.UndirectedLine(300)
    assert_finite(undirected, torch.full((2, 598), value * 0.49), *features(300))


def test_a_line_of_ten_thousand():
    line = chimera.Line(10_000)
    weight, scale = chimera.dag_adjacency(line, torch.rand(2, 10_000) * 0.1)
    C, B, V = features(10_000)
    y = assert_finite(line, weight, C, B, V, scale)
    h, expected = torch.zeros(2, 4, 4), []
    for t in range(10_000):
        a = weight[:, t - 1, None, None] if t else 0
        h = a * h + scale[:, t, None, None] * B[:, t, :, None] * V[:, t, None, :]
        expected.append((C[:, t, None] @ h).squeeze(1))
    torch.testing.assert_close(y, torch.stack(expected, 1), rtol=2e-4, atol=2e-4)


def test_an_undirected_line_of_ten_thousand_near_its_bound():
    line = chimera.UndirectedLine(10_000)
    steps = torch.full((2, 10_000), 1e-6)
    weight, scale = chimera.undirected_line_adjacency(line, steps, steps * 1e9, gamma=0.999)
    assert_finite(line, weight, *features(10_000), scale)


def test_a_large_grid_with_the_bounded_normaliser():
    grid = chimera.GridDAG((100, 100))
    weight, scale = chimera.grid_adjacency(grid, torch.full((2, 2, 10_000), 1e-3))
    assert_finite(grid, weight, *features(10_000), scale)
    row = chimera.solve(grid.flip(), weight, torch.eye(10_000)[-1].expand(2, -1).unsqueeze(-1))
    assert row.min() >= 0
    assert row.max() <= 1


def test_a_sparse_graph_is_not_inverted():
    """Ten thousand nodes: a dense inverse would take 400 MB a head; the factors here are tiny."""
    grid = chimera.Grid((100, 100))
    assert isinstance(chimera.select_solver(grid).solver, chimera.SparseLU)
    steps = torch.rand(1, 10_000)
    weight, _ = chimera.graph_adjacency(grid, steps, steps)
    x = chimera.solve(grid, weight, torch.ones(1, 10_000, 1))
    heard = torch.zeros(1, 10_000).index_add(1, grid.edge_index[1], weight * x[:, grid.edge_index[0], 0])
    torch.testing.assert_close(x.squeeze(-1) - heard, torch.ones(1, 10_000), rtol=1e-4, atol=1e-4)


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
