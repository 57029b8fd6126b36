"""A graph of a union does not notice the others, whatever their values are."""

import pytest
import torch

import chimera_ssm as chimera
from tests import zoo
from tests.chimera_ssm.ops.comparison import (
    force_form,
)

UNIONS = {
    "lines": [chimera.Line(5), chimera.Line(4, reverse=True), chimera.Line(70)],
    "undirected lines": [chimera.UndirectedLine(n) for n in (5, 4, 70)],
    "grid dags": [chimera.GridDAG((3, 4)), chimera.GridDAG((2, 2), (1, 0)), chimera.GridDAG((4, 5))],
    "dags": [zoo.random_dag(9, 12), zoo.random_dag(5, 5), zoo.complete_dag(12)],
    "complete dags": [zoo.complete_dag(n) for n in (6, 40, 20)],
    "graphs": [zoo.random_graph(9, 12), zoo.random_graph(5, 5), zoo.random_graph(20, 40)],
    "trees": [zoo.random_tree(n) for n in (9, 5, 20)],
    "dense graphs": [zoo.random_graph(12, 200, seed) for seed in (1, 2, 3)],
}
SOLVERS = [None, chimera.Dense(), chimera.Sweep(), chimera.SparseLU(), chimera.Squaring(), chimera.Neumann(2)]
CASES = [
    pytest.param(chimera.batch(parts), solver, id=f"{name}-{type(solver).__name__}")
    for name, parts in UNIONS.items()
    for solver in SOLVERS
    if solver is None or solver.unsupported_reason(chimera.batch(parts)) is None
]


def spoiled(topology, part, name):
    """Weight, C, B, V and scale; one of them is not finite in one part. And the nodes and edges of the others."""
    draw = torch.Generator().manual_seed(0)
    T = topology.num_nodes
    arguments = {"weight": zoo.bounded_weights(topology, 2, 2)}
    for label, shape in {"C": (2, 1, T, 3), "B": (2, 1, T, 3), "V": (2, 2, T, 5), "scale": (2, 2, T)}.items():
        arguments[label] = torch.randn(shape, generator=draw, dtype=torch.float64)
    nodes = torch.from_numpy(topology._part != part)
    edges = nodes[topology.edge_index[1]]
    if name is not None:
        x, others = arguments[name], edges if name == "weight" else nodes
        x.movedim(-2 if name in "CBV" else -1, 0)[~others] = torch.nan if name != "V" else torch.inf
    return [x.requires_grad_() for x in arguments.values()], nodes, edges


def results(verb, topology, solver, part, name):
    """Values of the other parts, and gradients there of a sum over them."""
    (weight, C, B, V, scale), nodes, edges = spoiled(topology, part, name)
    if verb == "mask":
        y, arguments = chimera.mask(topology, weight, solver)[..., nodes], [weight]
    elif verb == "solve":
        y, arguments = chimera.solve(topology, weight, V, solver), [weight, V]
    else:
        y, arguments = chimera.mix(topology, weight, C, B, V, scale, solver), [weight, V, C, B, scale]
    y = y[..., nodes, :]
    g = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    dw, *grads = torch.autograd.grad(y, arguments, g)
    return [y, dw[..., edges], *(d[..., nodes] if d.dim() == 3 else d[..., nodes, :] for d in grads)]


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 1, 2])
@pytest.mark.parametrize(("topology", "solver"), CASES)
def test_what_is_not_finite_stays_in_its_part(topology, solver, part, engine, monkeypatch):
    calls = [("mask", "mask", ["weight"]), ("solve", "mask", ["weight", "V"])]
    calls += [("mix", form, ["weight", "C", "B", "V", "scale"]) for form in ("mask", "state")]
    for verb, form, names in calls:
        force_form(monkeypatch, form)
        expected = results(verb, topology, solver, part, None)
        for name in names:
            for found, wanted in zip(results(verb, topology, solver, part, name), expected, strict=True):
                torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
        monkeypatch.undo()


@pytest.mark.parametrize("kind", [chimera.OnLine(), chimera.OnTwoLines(), chimera.OnUndirectedLine(), chimera.OnGrid(),
                                  chimera.OnDAG(), chimera.OnGraph()], ids=str)  # fmt: skip
@pytest.mark.parametrize("operators", [False, True])
def test_a_graph_in_a_batch_is_as_it_is_alone_beside_one_that_is_not_finite(kind, operators):
    from contextlib import nullcontext

    from chimera_ssm.ops.custom_ops import as_operators

    parts = {
        chimera.OnLine: [chimera.Line(7), chimera.Line(20, reverse=True), chimera.Line(9)],
        chimera.OnTwoLines: [chimera.UndirectedLine(n) for n in (7, 20, 9)],
        chimera.OnUndirectedLine: [chimera.UndirectedLine(n) for n in (7, 20, 9)],
        chimera.OnGrid: [chimera.Grid(shape) for shape in ((2, 3), (4, 5), (3, 3))],
    }.get(type(kind), [zoo.random_graph(7, 9), zoo.random_dag(20, 30), zoo.random_tree(9)])
    torch.manual_seed(0)
    mixer = chimera.Chimera(16, 2, 4, kind=kind).double()
    sizes = [p.num_nodes for p in parts]
    x = torch.randn(sum(sizes), 16, dtype=torch.float64)
    x[sizes[0] + 2, 3] = torch.nan
    x.requires_grad_()
    with as_operators() if operators else nullcontext():
        y = mixer(x, chimera.batch(parts)).split(sizes)
        assert y[1].isnan().any()
        for k in (0, 2):
            alone = x.detach().split(sizes)[k].clone().requires_grad_()
            expected = mixer(alone, parts[k])
            torch.testing.assert_close(y[k], expected)
            (found,) = torch.autograd.grad(y[k].square().sum(), x, retain_graph=True)
            (wanted,) = torch.autograd.grad(expected.square().sum(), alone)
            torch.testing.assert_close(found.split(sizes)[k], wanted)
