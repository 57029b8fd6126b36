"""Second derivatives, as those want them who train on forces: of solvers, mixes and whole layers."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.utils.checkpoint import checkpoint

import chimera_ssm as chimera
from chimera_ssm.ops.neumann.resolvent import TruncatedResolvent
from chimera_ssm.ops.sparse_lu.cpu import mix_by_mask, mix_by_state
from chimera_ssm.ops.sweep.layout import Layout
from chimera_ssm.ops.terms import Term
from tests import zoo
from tests.chimera_ssm.ops.test_functional import ENGINES, force_form, use_engine

Z, H, G, N, P = 1, 2, 1, 2, 3
TOPOLOGIES = {
    "line": [chimera.Line(5)],
    "long line": [chimera.Line(70)],
    "lines": [chimera.batch([chimera.Line(3), chimera.Line(1), chimera.Line(2, reverse=True)])],
    "two lines": chimera.UndirectedLine(5).dags(),
    "undirected line": [chimera.UndirectedLine(5)],
    "undirected path in disorder": [zoo.CYCLIC["undirected path in disorder"]],
    "grid": [chimera.Grid((2, 3))],
    "grid as dags": chimera.Grid((2, 3)).dags(),
    "line and grid": [chimera.Line(6), chimera.GridDAG((2, 3))],
    "dag": [zoo.random_dag(7, 12)],
    "tree": [zoo.random_tree(7)],
    "graph": [zoo.random_graph(6, 9, directed=True, loops=True)],
    "no edges": [zoo.OTHERS["no edges"]],
    "unequal graphs": [chimera.batch([zoo.random_graph(5, 7), chimera.Graph(1, [[], []]), zoo.random_tree(3)])],
}
FORMS = pytest.mark.parametrize("form", ["mask", "state"])


def inputs(topologies, sizes, scaled=True):
    """V, weights, scales, and one C and B, all to be differentiated."""
    (Z, H, G, N, P), T = sizes, topologies[0].num_nodes
    generator = torch.Generator().manual_seed(0)
    shapes = (Z, H, T, P), (Z, G, T, N), (Z, G, T, N), *[(Z, H, T)] * (len(topologies) if scaled else 0)
    V, C, B, *scales = (torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)
    weights = [zoo.bounded_weights(t, Z, H, seed=k) for k, t in enumerate(topologies)]
    return tuple(x.requires_grad_() for x in (V, C, B, *weights, *scales))


def assert_twice_differentiable(topologies, sizes=(Z, H, G, N, P), scaled=True, solver=None):
    """All terms share one C and one B."""
    D = len(topologies)

    def mix(V, C, B, *rest):
        return chimera.mix(topologies, rest[:D], [C] * D, [B] * D, V, rest[D:] or None, solver)

    assert gradgradcheck(mix, inputs(topologies, sizes, scaled), fast_mode=True)


@pytest.mark.parametrize("topologies", TOPOLOGIES.values(), ids=TOPOLOGIES)
@FORMS
def test_mix(topologies, form, monkeypatch):
    force_form(monkeypatch, form)
    assert_twice_differentiable(topologies)


@FORMS
def test_every_entry(form, monkeypatch):
    """Not only along random directions."""
    force_form(monkeypatch, form)
    grid = chimera.GridDAG((2, 2))
    V, C, B, weight, scale = inputs([grid], (Z, H, G, N, P))
    assert gradgradcheck(lambda w, *rest: chimera.mix(grid, w, *rest), (weight, C, B, V, scale))


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("topologies", [[chimera.Line(5)], chimera.Grid((2, 3)).dags()], ids=["line", "grid as dags"])
def test_small_layouts(topologies, scaled, monkeypatch):
    T, D = topologies[0].num_nodes, len(topologies)
    assert Layout(list(topologies), (1, 2, T, 16), (1, 1, T, 16), (0,) * D).small
    force_form(monkeypatch, "mask")
    assert_twice_differentiable(topologies, (1, 2, 1, 16, 16), scaled)


@pytest.mark.parametrize("mix", [mix_by_mask, mix_by_state])
def test_strided_inputs_of_sparse_factors(mix):
    graph = TOPOLOGIES["graph"][0]
    V, C, B, weight = inputs([graph], (Z, H, G, N, P), scaled=False)
    arguments = weight, *(x.mT.contiguous() for x in (C, B, V))
    leaves = tuple(x.detach().requires_grad_() for x in arguments)

    def of_transposes(weight, C, B, V):
        return mix([Term(graph, weight, C.mT, B.mT, None, "sparse_lu")], V.mT)

    assert gradgradcheck(of_transposes, leaves, fast_mode=True)


@pytest.mark.parametrize("wanted", range(5))
def test_of_one_argument_alone(wanted, monkeypatch):
    force_form(monkeypatch, "mask")
    line = chimera.Line(5)
    V, C, B, weight, scale = (x.detach() for x in inputs([line], (Z, H, G, N, P)))
    arguments = [weight, C, B, V, scale]

    def squared(x):
        return chimera.mix(line, *arguments[:wanted], x, *arguments[wanted + 1 :]).square()

    assert gradgradcheck(squared, arguments[wanted].requires_grad_(), fast_mode=True)


@pytest.fixture
def sparse(monkeypatch):
    """Truncated series by sparse products, however small."""
    monkeypatch.setattr(TruncatedResolvent, "_dense_is_cheaper", lambda *_: False)


NEUMANN = pytest.mark.parametrize("solver", [chimera.Neumann(), chimera.Neumann(3), chimera.Neumann(0)], ids=str)


@NEUMANN
@pytest.mark.usefixtures("sparse")
@ENGINES
@pytest.mark.parametrize("name", ["dag", "graph", "unequal graphs", "no edges"])
def test_truncated_solve(name, engine, solver, monkeypatch):
    use_engine(monkeypatch, engine)
    (topology,) = TOPOLOGIES[name]
    weight = zoo.bounded_weights(topology, 2).requires_grad_()
    rhs = torch.randn(2, topology.num_nodes, 1, dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(lambda w, b: chimera.solve(topology, w, b, solver), (weight, rhs), fast_mode=True)
    found = chimera.solve(topology, weight, rhs.detach(), solver).square().sum()
    (gradient,) = torch.autograd.grad(found, weight, create_graph=True, materialize_grads=True)
    assert gradient.isfinite().all()


@NEUMANN
@pytest.mark.usefixtures("sparse")
@FORMS
@ENGINES
@pytest.mark.parametrize("name", ["dag", "unequal graphs"])
def test_truncated_mix(name, form, engine, solver, monkeypatch):
    force_form(monkeypatch, form)
    use_engine(monkeypatch, engine)
    assert_twice_differentiable(TOPOLOGIES[name], solver=solver)


@pytest.mark.parametrize("name", ["line", "dag", "graph"])
@FORMS
def test_third_derivatives(name, form, monkeypatch):
    force_form(monkeypatch, form)
    (topology,) = TOPOLOGIES[name]
    V, C, B, weight, _ = inputs([topology], (Z, H, G, N, P))

    def gradient(*arguments):
        return torch.autograd.grad(chimera.mix(topology, *arguments).square().sum(), arguments, create_graph=True)

    assert gradcheck(gradient, (weight, C, B, V), fast_mode=True)
    assert gradgradcheck(gradient, (weight, C, B, V), fast_mode=True)


KINDS = {
    "line": (chimera.OnLine(), chimera.Line(4)),
    "reversed line": (chimera.OnLine(step="target"), chimera.Line(4, reverse=True)),
    "two lines": (chimera.OnTwoLines(), chimera.UndirectedLine(4)),
    "undirected line": (chimera.OnUndirectedLine(), chimera.UndirectedLine(4)),
    "grid": (chimera.OnGrid(), chimera.Grid((2, 3))),
    "dag": (chimera.OnDAG(), zoo.random_dag(5, 7)),
    "graph as dags": (chimera.OnDAG(), zoo.random_graph(5, 6)),
    "graph": (chimera.OnGraph(), zoo.random_graph(5, 6)),
    "graphs": (chimera.OnGraph(), chimera.batch([zoo.random_graph(4, 4), chimera.Line(2)])),
}


def hessian_by_differences(function, x, step=1e-5):
    def gradient(x):
        return torch.autograd.grad(function(x.requires_grad_()), x)[0].flatten()

    units = torch.eye(x.numel(), dtype=x.dtype).view(-1, *x.shape)
    return torch.stack([(gradient(x + step * e) - gradient(x - step * e)) / (2 * step) for e in units])


def assert_hessian(energy, x):
    found = torch.autograd.functional.hessian(energy, x).view(x.numel(), -1)
    torch.testing.assert_close(found, hessian_by_differences(energy, x), rtol=0, atol=1e-6)


def build(name):
    """A layer whose convolution and norm have kernels, and features."""
    torch.manual_seed(0)
    kind, topology = KINDS[name]
    layer = chimera.Chimera(8, kind=kind, num_heads=1, state_size=4).double()
    return layer, topology, torch.randn(topology.num_nodes, 8, dtype=torch.float64)


@FORMS
@pytest.mark.parametrize("name", KINDS)
def test_the_hessian_of_a_layer(name, form, monkeypatch):
    force_form(monkeypatch, form)
    layer, topology, x = build(name)
    assert_hessian(lambda x: layer(x, topology).sum(), x)


@pytest.mark.parametrize("name", ["line", "graph"])
def test_the_hessian_of_a_checkpointed_layer(name):
    layer, topology, x = build(name)
    assert_hessian(lambda x: checkpoint(layer, x, topology, use_reentrant=False).sum(), x)
