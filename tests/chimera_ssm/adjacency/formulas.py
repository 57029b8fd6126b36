"""The formulas of every parameterisation, edge by edge in float64, and topologies and steps to compare them on."""

import math

import pytest
import torch

import chimera_ssm as chimera
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
