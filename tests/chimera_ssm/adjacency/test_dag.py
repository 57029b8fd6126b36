"""Every parameterisation against its formulas, edge by edge in float64; masks, extreme steps, bad arguments."""

import math

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.adjacency import inverse_softplus
from tests import zoo

HEADS = 2
GAMMA = 0.95

LINES = {
    "1": chimera.UndirectedLine(1),
    "2": chimera.UndirectedLine(2),
    "9": chimera.UndirectedLine(9),
    "flipped": chimera.UndirectedLine(9).flip(),
    "batch": chimera.batch([chimera.UndirectedLine(n) for n in (4, 1, 6)]),
    "in disorder": zoo.ZOO["undirected path in disorder"],
    "grid": chimera.Grid((1, 6)),
}
GRIDS = {
    "one axis": chimera.GridDAG((6,), (1,)),
    **{name: zoo.ZOO[name] for name in zoo.ZOO if name.startswith("grid dag")},
    "four axes": chimera.GridDAG((2, 3, 1, 2), (0, 1, 0, 1)),
}
acyclic = pytest.mark.parametrize("topology", zoo.ACYCLIC.values(), ids=zoo.ACYCLIC)
every = pytest.mark.parametrize("topology", zoo.ZOO.values(), ids=zoo.ZOO)
lines = pytest.mark.parametrize("topology", LINES.values(), ids=LINES)
grids = pytest.mark.parametrize("topology", GRIDS.values(), ids=GRIDS)
DAG_OPTIONS = [("mean", "mean"), ("mean", "sqrt"), ("target", "mean"), ("target", "sqrt")]
dag_options = pytest.mark.parametrize(("step", "normalize"), DAG_OPTIONS)


def steps(*shape, seed=0, low=1e-2, high=3.0, dtype=torch.float64):
    """Positive steps, log-uniform from low to high."""
    uniform = torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.exp(math.log(low) + uniform * math.log(high / low)).to(dtype)


def node_steps(topology, seed=0, **options):
    return steps(HEADS, topology.num_nodes, seed=seed, **options)


def edge_steps(topology, seed=9, **options):
    return steps(HEADS, topology.num_edges, seed=seed, **options)


def pairs(topology):
    return list(map(tuple, topology.edge_index.T.tolist()))


def assert_same(found, expected):
    """Equal up to the rounding of float64."""
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=0)


# The formulas, edge by edge


def by_head(formula, *inputs):
    """Stack what a formula gives for each head: weights and scales."""
    heads = [formula(*(x[h].tolist() for x in inputs)) for h in range(HEADS)]
    return [torch.tensor(x, dtype=torch.float64).reshape(HEADS, -1) for x in zip(*heads, strict=True)]


def slow_dag(topology, edge_delta, own, normalize):
    """A_ij = exp(−Δ_ij) / n_i and β_i = Σ_j Δ_ij / n_i, or β_i = Δ_i without in-edges; Δ_ij given."""
    edges = pairs(topology)

    def formula(edge_delta, own):
        weight, scale, divisor = [], [], []
        for node in range(topology.num_nodes):
            incoming = [edge_delta[e] for e, (_, target) in enumerate(edges) if target == node]
            divisor.append(math.sqrt(len(incoming)) if normalize == "sqrt" else len(incoming))
            scale.append(sum(incoming) / divisor[node] if incoming else own[node])
        for e, (_, target) in enumerate(edges):
            weight.append(math.exp(-edge_delta[e]) / divisor[target])
        return weight, scale

    return by_head(formula, edge_delta, own)


def slow_edge_delta(topology, delta, step, edge_step=None):
    """Δ_ij: the step of the target, or the mean of the target's, the source's and the edge's own."""
    found = torch.zeros(HEADS, topology.num_edges, dtype=torch.float64)
    for e, (source, target) in enumerate(pairs(topology)):
        terms = [delta[:, target]] if step == "target" else [delta[:, target], delta[:, source]]
        terms += [] if edge_step is None else [edge_step[:, e]]
        found[:, e] = sum(terms) / len(terms)
    return found


def slow_grid_delta(topology, delta, step):
    """Δ_ij on a grid: that of the axis along which the edge runs."""
    found = torch.zeros(HEADS, topology.num_edges, dtype=torch.float64)
    edge, start = 0, 0
    for part in topology.parts:
        for source, target in pairs(part):
            axis = next(a for a in range(part.num_axes) if part.coordinates[source][a] != part.coordinates[target][a])
            on_axis = delta[:, axis, start : start + part.num_nodes]
            ends = [target] if step == "target" else [target, source]
            found[:, edge] = sum(on_axis[:, end] for end in ends) / len(ends)
            edge += 1
        start += part.num_nodes
    return found


def slow_graph(topology, delta, psi, delta_source=None, edge_step=None, gamma=GAMMA):
    """A_ij = exp(−mean of steps), each row times γ / (its sum + exp(−Ψ_i)); β_i = Δ¹_i."""
    edges = pairs(topology)
    inputs = [delta, psi, delta if delta_source is None else delta_source]

    def formula(delta, psi, delta_source, edge_step=None):
        weight = []
        for e, (source, target) in enumerate(edges):
            terms = [delta[target], delta_source[source]] + ([] if edge_step is None else [edge_step[e]])
            weight.append(math.exp(-sum(terms) / len(terms)))
        total = [math.exp(-p) for p in psi]
        for a, (_, target) in zip(weight, edges, strict=True):
            total[target] += a
        return [gamma * a / total[target] for a, (_, target) in zip(weight, edges, strict=True)], delta

    return by_head(formula, *inputs, *([] if edge_step is None else [edge_step]))


def slow_undirected_line(topology, delta, psi, delta_source, gamma):
    """a, b ← γ (a, b) / (2 √(ab + ψ)) for the two edges of each link; β_i = Δ¹_i."""
    edges = pairs(topology)

    def formula(delta, psi, delta_source):
        weight = []
        for j, i in edges:
            a = math.exp(-(delta[i] + delta_source[j]) / 2)
            b = math.exp(-(delta[j] + delta_source[i]) / 2)
            rest = max(math.exp(-(psi[i] + psi[j]) / 2), 1e-4)
            weight.append(gamma * a / (2 * math.sqrt(a * b + rest)))
        return weight, delta

    return by_head(formula, delta, psi, delta_source)


# Values


@acyclic
@dag_options
def test_dag_weights(topology, step, normalize):
    delta = node_steps(topology)
    expected = slow_dag(topology, slow_edge_delta(topology, delta, step), delta, normalize)
    assert_same(chimera.dag_adjacency(topology, delta, step=step, normalize=normalize), expected)


@acyclic
@pytest.mark.parametrize("normalize", ["mean", "sqrt"])
def test_dag_weights_with_edge_steps(topology, normalize):
    delta, edge_step = node_steps(topology), edge_steps(topology)
    expected = slow_dag(topology, slow_edge_delta(topology, delta, "mean", edge_step), delta, normalize)
    assert_same(chimera.dag_adjacency(topology, delta, edge_step=edge_step, normalize=normalize), expected)


def test_dag_weights_take_the_means_if_not_told_otherwise():
    dag = zoo.ZOO["dag 63"]
    delta = node_steps(dag)
    assert_same(chimera.dag_adjacency(dag, delta), chimera.dag_adjacency(dag, delta, step="mean", normalize="mean"))


@acyclic
@dag_options
def test_a_node_without_in_edges_injects_with_its_own_step(topology, step, normalize):
    delta = node_steps(topology)
    scale = chimera.dag_adjacency(topology, delta, step=step, normalize=normalize).scale
    roots = topology.in_degree == 0
    assert torch.equal(scale[:, roots], delta[:, roots])


@grids
@dag_options
def test_grid_weights_take_the_step_of_their_axis(topology, step, normalize):
    delta = steps(HEADS, topology.parts[0].num_axes, topology.num_nodes)
    expected = slow_dag(topology, slow_grid_delta(topology, delta, step), delta.mean(1), normalize)
    assert_same(chimera.grid_adjacency(topology, delta, step=step, normalize=normalize), expected)


@grids
@dag_options
def test_equal_steps_on_all_axes_are_those_of_a_dag(topology, step, normalize):
    delta = node_steps(topology)
    per_axis = delta.unsqueeze(1).expand(-1, topology.parts[0].num_axes, -1)
    options = {"step": step, "normalize": normalize}
    assert_same(
        chimera.grid_adjacency(topology, per_axis, **options), chimera.dag_adjacency(topology, delta, **options)
    )


@every
@pytest.mark.parametrize("with_edges", [False, True], ids=["nodes", "edges"])
@pytest.mark.parametrize("directional", [False, True], ids=["one step", "two steps"])
def test_graph_weights(topology, directional, with_edges):
    delta, psi = node_steps(topology), node_steps(topology, seed=1) - 1
    options = {"delta_source": node_steps(topology, seed=2)} if directional else {}
    options |= {"edge_step": edge_steps(topology)} if with_edges else {}
    expected = slow_graph(topology, delta, psi, **options)
    assert_same(chimera.graph_adjacency(topology, delta, psi, **options), expected)


@pytest.mark.parametrize("gamma", [0.1, 0.999])
def test_graph_weights_follow_gamma(gamma):
    graph = zoo.ZOO["directed graph with loops"]
    delta, psi = node_steps(graph), node_steps(graph, seed=1)
    assert_same(chimera.graph_adjacency(graph, delta, psi, gamma=gamma), slow_graph(graph, delta, psi, gamma=gamma))


@lines
@pytest.mark.parametrize("gamma", [0.5, 0.999])
@pytest.mark.parametrize("psi_scale", [1.0, 10.0], ids=["psi", "least psi"])
def test_undirected_line_weights(topology, gamma, psi_scale):
    delta, psi = node_steps(topology), node_steps(topology, seed=1) * psi_scale
    delta_source = node_steps(topology, seed=2)
    found = chimera.undirected_line_adjacency(topology, delta, psi, delta_source=delta_source, gamma=gamma)
    assert_same(found, slow_undirected_line(topology, delta, psi, delta_source, gamma))


@lines
def test_undirected_line_weights_with_one_step(topology):
    delta, psi = node_steps(topology), node_steps(topology, seed=1)
    found = chimera.undirected_line_adjacency(topology, delta, psi)
    assert_same(found, slow_undirected_line(topology, delta, psi, delta, gamma=0.99))


def test_leading_dimensions_are_computed_one_by_one():
    graph, dag = zoo.ZOO["molecule"], zoo.ZOO["dag 63"]
    delta, psi, edge = (steps(3, HEADS, n, seed=n) for n in (graph.num_nodes, graph.num_nodes, graph.num_edges))
    found = chimera.graph_adjacency(graph, delta, psi, edge_step=edge)
    alone = [chimera.graph_adjacency(graph, delta[b], psi[b], edge_step=edge[b]) for b in range(3)]
    assert_same(found, map(torch.stack, zip(*alone, strict=True)))
    delta = steps(3, HEADS, dag.num_nodes)
    alone = [chimera.dag_adjacency(dag, delta[b]) for b in range(3)]
    assert_same(chimera.dag_adjacency(dag, delta), map(torch.stack, zip(*alone, strict=True)))


# Other state space models


def test_linear_attention_is_one_everywhere():
    grid = chimera.GridDAG((2, 3))
    weight, scale = chimera.linear_attention(grid, num_heads=3)
    assert torch.equal(weight, torch.ones(3, grid.num_edges))
    assert torch.equal(scale, torch.ones(3, grid.num_nodes))


def test_retnet_decays_by_head():
    decay = torch.tensor([[0.5, 0.9], [0.25, 0.75]], dtype=torch.float64)
    weight, scale = chimera.retnet(chimera.Line(4), decay)
    assert torch.equal(weight, torch.stack([decay] * 3, dim=-1))
    assert torch.equal(scale, torch.ones(2, 2, 4, dtype=torch.float64))


@pytest.mark.parametrize("line", [chimera.Line(5), chimera.Line(5, reverse=True)], ids=repr)
def test_mamba2_is_exp_of_the_targets_step(line):
    delta = node_steps(line)
    weight, scale = chimera.mamba2(line, delta)
    torch.testing.assert_close(weight, torch.exp(-delta[:, line.edge_index[1]]), rtol=1e-14, atol=0)
    assert torch.equal(scale, delta)


def test_mamba2_is_its_recurrence():
    line, T = chimera.Line(6), 6
    delta, B, V, C = node_steps(line), steps(1, T, 3, seed=1), steps(HEADS, T, 2, seed=2), steps(1, T, 3, seed=3)
    expected, state = torch.zeros(HEADS, T, 2, dtype=torch.float64), torch.zeros(HEADS, 3, 2, dtype=torch.float64)
    for t in range(T):
        step = delta[:, t, None, None]
        state = torch.exp(-step) * state + step * B[0, t, :, None] * V[:, t, None, :]
        expected[:, t] = torch.einsum("n,hnp->hp", C[0, t], state)
    weight, scale = chimera.mamba2(line, delta)
    torch.testing.assert_close(chimera.mix(line, weight, C, B, V, scale=scale), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inverse_softplus(dtype):
    x = torch.logspace(-6, 3, 50, dtype=dtype)
    softplus = torch.logaddexp(inverse_softplus(x), torch.zeros_like(x))
    torch.testing.assert_close(softplus, x, rtol=20 * torch.finfo(dtype).eps, atol=0)


# Masks


def masks(topology):
    """Masks ``[3, T]``: nodes missing at random, at the end, and none at all."""
    present = torch.rand(topology.num_nodes, generator=torch.Generator().manual_seed(4)) < 0.7
    head = torch.arange(topology.num_nodes) < (topology.num_nodes + 1) // 2
    return torch.stack([present, head, torch.ones_like(head)])


def subgraph(topology, present):
    """The graph of the present nodes, and which edges it has."""
    alive = [e for e, (source, target) in enumerate(pairs(topology)) if present[source] and present[target]]
    number = torch.cumsum(present, 0) - 1
    return chimera.Graph(int(present.sum()), number[topology.edge_index[:, alive]]), torch.tensor(alive).long()


def check_mask(topology, parameterise):
    """``parameterise(topology, nodes, edges, mask)`` is handed the nodes and edges whose features it is to use."""
    nodes, edges = torch.arange(topology.num_nodes), torch.arange(topology.num_edges)
    together = parameterise(topology, nodes, edges, masks(topology))
    for b, present in enumerate(masks(topology)):
        weight, scale = parameterise(topology, nodes, edges, present)
        assert torch.equal(together.weight[b], weight)
        assert torch.equal(together.scale[b], scale)
        expected_weight, expected_scale = torch.zeros_like(weight), torch.zeros_like(scale)
        if present.any():
            sub, alive = subgraph(topology, present)
            small = parameterise(sub, nodes[present], alive, None)
            expected_weight[:, alive], expected_scale[:, present] = small
        assert_same((weight, scale), (expected_weight, expected_scale))


@acyclic
@dag_options
def test_dag_weights_of_a_masked_topology_are_those_of_its_subgraph(topology, step, normalize):
    delta = node_steps(topology)
    check_mask(
        topology,
        lambda t, nodes, edges, mask: chimera.dag_adjacency(
            t, delta[:, nodes], step=step, normalize=normalize, node_mask=mask
        ),
    )


@acyclic
def test_masked_dag_weights_with_edge_steps(topology):
    delta, edge_step = node_steps(topology), edge_steps(topology)
    check_mask(
        topology,
        lambda t, nodes, edges, mask: chimera.dag_adjacency(
            t, delta[:, nodes], edge_step=edge_step[:, edges], node_mask=mask
        ),
    )


@every
def test_masked_graph_weights(topology):
    delta, psi, delta_source = (node_steps(topology, seed) for seed in range(3))
    edge_step = edge_steps(topology)
    check_mask(
        topology,
        lambda t, nodes, edges, mask: chimera.graph_adjacency(
            t,
            delta[:, nodes],
            psi[:, nodes],
            delta_source=delta_source[:, nodes],
            edge_step=edge_step[:, edges],
            node_mask=mask,
        ),
    )


@lines
def test_masked_undirected_line_weights(topology):
    delta, psi, delta_source = (node_steps(topology, seed) for seed in range(3))
    check_mask(
        topology,
        lambda t, nodes, edges, mask: chimera.undirected_line_adjacency(
            t, delta[:, nodes], psi[:, nodes], delta_source=delta_source[:, nodes], node_mask=mask
        ),
    )


@acyclic
def test_masked_weights_of_other_models(topology):
    decay = torch.tensor([0.5, 0.9], dtype=torch.float64)
    delta = node_steps(topology)
    check_mask(topology, lambda t, nodes, edges, mask: chimera.retnet(t, decay, node_mask=mask))
    check_mask(topology, lambda t, nodes, edges, mask: chimera.linear_attention(t, HEADS, node_mask=mask))
    check_mask(topology, lambda t, nodes, edges, mask: chimera.mamba2(t, delta[:, nodes], node_mask=mask))


@pytest.mark.parametrize("corner", [(0, 0), (0, 1), (1, 0), (1, 1)])
@dag_options
def test_a_padded_grid_has_the_weights_of_the_grid(corner, step, normalize):
    padded, small = chimera.GridDAG((5, 6), corner), chimera.GridDAG((3, 4), corner)
    mask = torch.zeros(5, 6, dtype=torch.bool)
    mask[:3, :4] = True
    mask = mask.flatten()
    delta = steps(HEADS, 2, 30)
    weight, scale = chimera.grid_adjacency(padded, delta, step=step, normalize=normalize, node_mask=mask)
    expected = chimera.grid_adjacency(small, delta[..., mask], step=step, normalize=normalize)
    alive = mask[padded.edge_index].all(0)
    assert_same((weight[:, alive], scale[:, mask]), expected)
    assert not weight[:, ~alive].any()
    assert not scale[:, ~mask].any()


@grids
@dag_options
def test_masked_grid_weights(topology, step, normalize):
    delta = steps(HEADS, topology.parts[0].num_axes, topology.num_nodes)
    edge_delta = slow_grid_delta(topology, delta, step)
    for mask in masks(topology):
        weight, scale = chimera.grid_adjacency(topology, delta, step=step, normalize=normalize, node_mask=mask)
        expected_weight, expected_scale = torch.zeros_like(weight), torch.zeros_like(scale)
        if mask.any():
            sub, alive = subgraph(topology, mask)
            own = delta.mean(1)[:, mask]
            expected_weight[:, alive], expected_scale[:, mask] = slow_dag(sub, edge_delta[:, alive], own, normalize)
        assert_same((weight, scale), (expected_weight, expected_scale))


# Extreme steps


def extreme(topology, seed):
    """Steps from 1e-6 to 1e3, float32, both ends of the range at hand."""
    delta = node_steps(topology, seed, low=1e-6, high=1e3, dtype=torch.float32)
    delta[0], delta[1, ::2] = delta[0].sort().values, 1e3
    delta[1, 1::4] = 1e-6
    return delta.requires_grad_()


def assert_finite(adjacency, *inputs):
    """Values and gradients, under cotangents of both signs."""
    weight, scale = adjacency
    generator = torch.Generator().manual_seed(7)
    loss = sum((x * torch.randn(x.shape, generator=generator)).sum() for x in adjacency)
    gradients = torch.autograd.grad(loss, inputs, allow_unused=not weight.numel(), materialize_grads=not weight.numel())
    for x in (weight, scale, *gradients):
        assert torch.isfinite(x).all()


def row_sums(topology, weight):
    sums = torch.zeros(HEADS, topology.num_nodes, dtype=torch.float64)
    return sums.index_add(1, topology.edge_index[1], weight.detach().double())


@acyclic
@dag_options
def test_dag_weights_are_finite_for_extreme_steps(topology, step, normalize):
    delta = extreme(topology, 0)
    adjacency = chimera.dag_adjacency(topology, delta, step=step, normalize=normalize)
    assert_finite(adjacency, delta)
    assert (adjacency.weight >= 0).all()
    if normalize == "mean":
        assert (row_sums(topology, adjacency.weight) <= 1 + 1e-6).all()


@every
@pytest.mark.parametrize("sign", [1, -1], ids=["psi", "negative psi"])
def test_graph_weights_are_finite_and_rows_bounded_for_extreme_steps(topology, sign):
    delta, psi, delta_source = (extreme(topology, seed) for seed in range(3))
    edge_step = edge_steps(topology, low=1e-6, high=1e3, dtype=torch.float32).requires_grad_()
    adjacency = chimera.graph_adjacency(topology, delta, sign * psi, delta_source=delta_source, edge_step=edge_step)
    assert_finite(adjacency, delta, psi, delta_source, edge_step)
    assert (adjacency.weight >= 0).all()
    rounding = 1 + 4 * torch.finfo(torch.float32).eps
    assert (row_sums(topology, adjacency.weight) <= GAMMA * rounding).all()


@lines
@pytest.mark.parametrize("gamma", [0.5, 0.999])
def test_undirected_line_weights_are_finite_and_two_cycles_bounded_for_extreme_steps(topology, gamma):
    delta, psi, delta_source = (extreme(topology, seed) for seed in range(3))
    adjacency = chimera.undirected_line_adjacency(topology, delta, psi, delta_source=delta_source, gamma=gamma)
    assert_finite(adjacency, delta, psi, delta_source)
    weight = dict(zip(pairs(topology), adjacency.weight.detach().double().unbind(-1), strict=True))
    for source, target in weight:
        product = weight[source, target] * weight[target, source]
        assert (product >= 0).all()
        assert (product <= gamma**2 / 4 * (1 + 1e-5)).all()


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e3])
def test_a_row_of_large_steps_keeps_its_share(size):
    """Where all exponents are equal, a row of n edges and Ψ is split into n + 1 equal parts."""
    graph = zoo.ZOO["dense graph"]
    delta = torch.full((1, graph.num_nodes), size)
    weight = chimera.graph_adjacency(graph, delta, delta).weight
    expected = GAMMA / (graph.in_degree[graph.edge_index[1]] + 1)
    torch.testing.assert_close(weight[0], expected, rtol=1e-6, atol=0)


def test_gradients_of_graph_weights():
    graph = zoo.random_graph(6, 8, directed=True, loops=True)
    inputs = [x.requires_grad_() for x in (*(node_steps(graph, seed) for seed in range(3)), edge_steps(graph))]
    mask = torch.arange(6) != 2
    assert torch.autograd.gradcheck(
        lambda delta, psi, source, edge: chimera.graph_adjacency(
            graph, delta, psi, delta_source=source, edge_step=edge, node_mask=mask
        ),
        inputs,
    )


# Precision


def parameterisations():
    line, both, grid, graph = chimera.Line(5), chimera.UndirectedLine(5), chimera.GridDAG((2, 3)), zoo.molecule(20)
    return {
        "dag": lambda dtype: chimera.dag_adjacency(line, node_steps(line, dtype=dtype)),
        "dag with edges": lambda dtype: chimera.dag_adjacency(
            line, node_steps(line, dtype=dtype), edge_step=edge_steps(line, dtype=dtype)
        ),
        "grid": lambda dtype: chimera.grid_adjacency(grid, steps(HEADS, 2, 6, dtype=dtype)),
        "graph": lambda dtype: chimera.graph_adjacency(
            graph,
            node_steps(graph, dtype=dtype),
            node_steps(graph, 1, dtype=dtype),
            edge_step=edge_steps(graph, dtype=dtype),
        ),
        "undirected line": lambda dtype: chimera.undirected_line_adjacency(
            both, node_steps(both, dtype=dtype), node_steps(both, 1, dtype=dtype)
        ),
        "mamba2": lambda dtype: chimera.mamba2(line, node_steps(line, dtype=dtype)),
        "retnet": lambda dtype: chimera.retnet(line, torch.tensor([0.5, 0.9], dtype=dtype)),
    }


every_parameterisation = pytest.mark.parametrize("make", parameterisations().values(), ids=parameterisations())


@every_parameterisation
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_is_raised_to_float32(make, dtype):
    weight, scale = make(dtype)
    assert weight.dtype == scale.dtype == torch.float32
    tolerance = {torch.float16: 5e-3, torch.bfloat16: 4e-2, torch.float32: 1e-5}[dtype]
    for found, exact in zip((weight, scale), make(torch.float64), strict=True):
        torch.testing.assert_close(found, exact.float(), rtol=tolerance, atol=0)


@every_parameterisation
def test_double_precision_is_kept(make):
    weight, scale = make(torch.float64)
    assert weight.dtype == scale.dtype == torch.float64


def test_half_precision_is_raised_before_anything_is_computed():
    line = chimera.Line(5)
    delta = node_steps(line, dtype=torch.bfloat16)
    assert_same(chimera.dag_adjacency(line, delta), chimera.dag_adjacency(line, delta.float()))


def test_linear_attention_is_on_the_device_of_its_topology():
    line = chimera.Line(4).to("meta")
    weight, scale = chimera.linear_attention(line, node_mask=torch.ones(4, dtype=torch.bool, device="meta"))
    assert weight.device == scale.device == line.device


# Bad arguments

LINE, BOTH, GRID, CYCLIC = chimera.Line(4), chimera.UndirectedLine(4), chimera.GridDAG((2, 2)), zoo.ZOO["triangle"]
NODES, EDGES, AXES = torch.ones(HEADS, 4), torch.ones(HEADS, 3), torch.ones(HEADS, 2, 4)
THREE = torch.ones(HEADS, 3)


@pytest.mark.parametrize("gamma", [0, 1, 1.5, -0.5, math.nan])
def test_gamma_out_of_range_is_named(gamma):
    with pytest.raises(ValueError, match=f"gamma must satisfy 0 < γ < 1, found {gamma}"):
        chimera.graph_adjacency(CYCLIC, THREE, THREE, gamma=gamma)


@pytest.mark.parametrize("gamma", [0, 0.9999, 1, 1.5, math.nan])
def test_gamma_of_an_undirected_line_is_bounded_further(gamma):
    with pytest.raises(ValueError, match=f"gamma must satisfy 0 < γ ≤ 0.999, found {gamma}"):
        chimera.undirected_line_adjacency(BOTH, NODES, NODES, gamma=gamma)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chimera.dag_adjacency(LINE, NODES, step="source"), "step must be one of .*mean.*target.* 'source'"),
        (lambda: chimera.dag_adjacency(LINE, NODES, normalize="max"), "normalize must be .*mean.*sqrt.* 'max'"),
        (lambda: chimera.grid_adjacency(GRID, AXES, step="source"), "step must be one of .*mean.*target.* 'source'"),
        (lambda: chimera.grid_adjacency(GRID, AXES, normalize="max"), "normalize must be .*mean.*sqrt.* 'max'"),
        (lambda: chimera.dag_adjacency(LINE, NODES, step="target", edge_step=EDGES), "edge_step .* needs step='mean'"),
    ],
    ids=["step", "normalize", "step on a grid", "normalize on a grid", "edge_step with target"],
)
def test_bad_options_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chimera.dag_adjacency(LINE, EDGES), r"delta .*H, 4\] for the 4 nodes of Line\(4\), found \[2, 3\]"),
        (lambda: chimera.dag_adjacency(LINE, NODES[0]), r"delta must have shape .* found \[4\]"),
        (lambda: chimera.dag_adjacency(LINE, NODES, edge_step=NODES), r"edge_step .*the 3 edges .* found \[2, 4\]"),
        (lambda: chimera.mamba2(LINE, EDGES), r"delta must have shape .* found \[2, 3\]"),
        (lambda: chimera.grid_adjacency(GRID, NODES), r"delta must have shape \[\.\.\., H, 2, T\] .* found \[2, 4\]"),
        (lambda: chimera.grid_adjacency(GRID, AXES[:, :1]), r"H, 2, T\] for GridDAG.* found \[2, 1, 4\]"),
        (lambda: chimera.grid_adjacency(GRID, AXES[..., :3]), r"delta must .* 4 nodes .* found \[2, 2, 3\]"),
        (lambda: chimera.graph_adjacency(CYCLIC, NODES, THREE), r"delta must .* 3 nodes .* found \[2, 4\]"),
        (lambda: chimera.graph_adjacency(CYCLIC, THREE, NODES), r"psi must .* 3 nodes .* found \[2, 4\]"),
        (
            lambda: chimera.graph_adjacency(CYCLIC, THREE, THREE, delta_source=NODES),
            r"delta_source must .* 3 nodes .* found \[2, 4\]",
        ),
        (
            lambda: chimera.graph_adjacency(CYCLIC, THREE, THREE, edge_step=NODES),
            r"edge_step must .* 3 edges .* found \[2, 4\]",
        ),
        (lambda: chimera.undirected_line_adjacency(BOTH, EDGES, NODES), r"delta must .* found \[2, 3\]"),
        (lambda: chimera.undirected_line_adjacency(BOTH, NODES, EDGES), r"psi must .* found \[2, 3\]"),
        (
            lambda: chimera.undirected_line_adjacency(BOTH, NODES, NODES, delta_source=EDGES),
            r"delta_source must .* found \[2, 3\]",
        ),
    ],
)
def test_wrong_shapes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: chimera.dag_adjacency(LINE, NODES.long()), "delta"),
        (lambda: chimera.dag_adjacency(LINE, NODES, edge_step=EDGES.long()), "edge_step"),
        (lambda: chimera.grid_adjacency(GRID, AXES.long()), "delta"),
        (lambda: chimera.graph_adjacency(CYCLIC, THREE.long(), THREE), "delta"),
        (lambda: chimera.graph_adjacency(CYCLIC, THREE, THREE.long()), "psi"),
        (lambda: chimera.graph_adjacency(CYCLIC, THREE, THREE, delta_source=THREE.long()), "delta_source"),
        (lambda: chimera.graph_adjacency(CYCLIC, THREE, THREE, edge_step=THREE.long()), "edge_step"),
        (lambda: chimera.undirected_line_adjacency(BOTH, NODES.long(), NODES), "delta"),
        (lambda: chimera.undirected_line_adjacency(BOTH, NODES, NODES.long()), "psi"),
        (lambda: chimera.mamba2(LINE, NODES.long()), "delta"),
        (lambda: chimera.retnet(LINE, torch.ones(HEADS).long()), "decay"),
    ],
)
def test_integer_steps_are_named(call, name):
    with pytest.raises(ValueError, match=f"{name} must be floating point, found torch.int64"):
        call()


WITH_MASK = {
    "dag": lambda mask: chimera.dag_adjacency(LINE, NODES, node_mask=mask),
    "grid": lambda mask: chimera.grid_adjacency(GRID, AXES, node_mask=mask),
    "graph": lambda mask: chimera.graph_adjacency(BOTH, NODES, NODES, node_mask=mask),
    "undirected line": lambda mask: chimera.undirected_line_adjacency(BOTH, NODES, NODES, node_mask=mask),
    "linear attention": lambda mask: chimera.linear_attention(LINE, node_mask=mask),
    "retnet": lambda mask: chimera.retnet(LINE, torch.ones(HEADS), node_mask=mask),
    "mamba2": lambda mask: chimera.mamba2(LINE, NODES, node_mask=mask),
}


@pytest.mark.parametrize("call", WITH_MASK.values(), ids=WITH_MASK)
def test_bad_masks_are_named(call):
    with pytest.raises(ValueError, match=r"node_mask must be boolean, .* found torch.int64"):
        call(torch.ones(4).long())
    with pytest.raises(ValueError, match=r"node_mask must have shape \[\.\.\., 4\] .* found \[2, 3\]"):
        call(torch.ones(2, 3, dtype=torch.bool))


@pytest.mark.parametrize(
    "topology",
    [
        LINE,
        chimera.DAG(4, [[0], [1]]),
        chimera.batch([chimera.GridDAG((1, 2)), chimera.GridDAG((2,))]),
        chimera.batch([chimera.GridDAG((1, 2)), chimera.Line(2)]),
    ],
    ids=repr,
)
def test_steps_per_axis_need_grids_of_equally_many_axes(topology):
    with pytest.raises(ValueError, match=r"need a grid, or a batch of grids with equally many axes, found .*; use dag"):
        chimera.grid_adjacency(topology, AXES)


@pytest.mark.parametrize("topology", [chimera.Grid((2, 2)), LINE, chimera.Graph(4, [[0, 1], [1, 1]])], ids=repr)
def test_undirected_line_weights_need_undirected_lines(topology):
    with pytest.raises(ValueError, match=r"needs undirected lines, found .*; use graph_adjacency"):
        chimera.undirected_line_adjacency(topology, NODES, NODES)


@pytest.mark.parametrize(
    "call",
    [
        lambda: chimera.dag_adjacency(CYCLIC, THREE),
        lambda: chimera.mamba2(BOTH, NODES),
        lambda: chimera.grid_adjacency(chimera.Grid((2, 2)), AXES),
    ],
)
def test_dag_weights_need_an_acyclic_topology(call):
    with pytest.raises(ValueError, match=r"needs an acyclic topology, found .*; use its dags\(\)"):
        call()
