"""Every solver on every topology it supports, values and every gradient, against the dense float64 truth."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.ops import dispatch
from chimera_ssm.ops import functional as verbs
from chimera_ssm.ops.reference import reference_mask, reference_mix, reference_series
from chimera_ssm.ops.scan import cpu as chunks
from chimera_ssm.ops.sweep import cpu_state as states
from chimera_ssm.ops.sweep.kernels_state import BLOCK
from chimera_ssm.ops.sweep.plan import sweep_plan
from tests import zoo

SOLVERS = {
    "auto": None,
    "dense": chimera.Dense(),
    "sweep": chimera.Sweep(),
    "elimination": chimera.SparseLU(),
    "squaring": chimera.Squaring(),
    "neumann": chimera.Neumann(),
    "neumann 3 squared": chimera.Neumann(3, squared=True),
}
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4}
CASES = [
    pytest.param(topology, solver, id=f"{name}-{label}")
    for name, topology in zoo.ZOO.items()
    for label, solver in SOLVERS.items()
    if solver is None or solver.unsupported_reason(topology) is None
]
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
ENGINES = pytest.mark.parametrize("engine", ["kernels", "plain"])
Z, H, G, N, P = 2, 4, 2, 3, 5


def inputs(topology, dtype):
    """Weight, C, B, V and scale, all to be differentiated."""
    generator = torch.Generator().manual_seed(1)
    shapes = (Z, G, topology.num_nodes, N), (Z, G, topology.num_nodes, N), (Z, H, topology.num_nodes, P)
    tensors = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    scale = torch.rand(Z, H, topology.num_nodes, generator=generator, dtype=torch.float64)
    weight = zoo.bounded_weights(topology, Z, H)
    return [x.to(dtype).requires_grad_() for x in (weight, *tensors, scale)]


def truth(topology, weight, solver):
    if isinstance(solver, chimera.Neumann):
        return reference_series(topology, weight, solver.highest_powers(topology))
    return reference_mask(topology, weight)


def assert_same(found, expected, arguments, references, dtype):
    """Values and the gradients in every argument, relative to the largest entry of each."""
    generator = torch.Generator().manual_seed(2)
    grad = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
    expected = expected + 0 * sum(r.sum() for r in references)  # so that all have a gradient, if only zero
    found_grads = torch.autograd.grad(found, arguments, grad.to(dtype), allow_unused=True)
    expected_grads = torch.autograd.grad(expected, references, grad)
    assert_close(found, expected, dtype)
    for a, b in zip(found_grads, expected_grads, strict=True):
        assert_close(torch.zeros_like(b) if a is None else a, b, dtype)


def assert_close(found, expected, dtype):
    assert found.shape == expected.shape
    if expected.numel():
        scale = expected.abs().max().clamp(min=1e-30)
        assert ((found - expected).abs().max() / scale).item() < TOLERANCE[dtype]


@DTYPES
@ENGINES
@pytest.mark.parametrize(("topology", "solver"), CASES)
def test_mask(topology, solver, engine, dtype, monkeypatch):
    use_engine(monkeypatch, engine)
    weight, *_ = inputs(topology, dtype)
    reference = weight.detach().double().requires_grad_()
    found = chimera.mask(topology, weight, solver)
    assert_same(found, truth(topology, reference, solver), [weight], [reference], dtype)


@DTYPES
@ENGINES
@pytest.mark.parametrize(("topology", "solver"), CASES)
def test_solve(topology, solver, engine, dtype, monkeypatch):
    use_engine(monkeypatch, engine)
    weight, _, _, rhs, _ = inputs(topology, dtype)
    references = [x.detach().double().requires_grad_() for x in (weight, rhs)]
    found = chimera.solve(topology, weight, rhs, solver)
    assert_same(found, truth(topology, references[0], solver) @ references[1], [weight, rhs], references, dtype)


@DTYPES
@ENGINES
@pytest.mark.parametrize("form", ["mask", "state"])
@pytest.mark.parametrize(("topology", "solver"), CASES)
def test_mix(topology, solver, form, engine, dtype, monkeypatch):
    force_form(monkeypatch, form)
    use_engine(monkeypatch, engine)
    arguments = inputs(topology, dtype)
    references = [x.detach().double().requires_grad_() for x in arguments]
    found = chimera.mix(topology, *arguments, solver=solver)
    expected = reference_mix(truth(topology, references[0], solver), *references[1:])
    assert_same(found, expected, arguments, references, dtype)


LINES = pytest.mark.parametrize(
    "topology",
    [chimera.Line(70), chimera.Line(33, reverse=True), chimera.batch([chimera.Line(n) for n in (20, 1, 31)]),
     chimera.DAG(40, torch.randperm(40, generator=torch.Generator().manual_seed(0)).unfold(0, 2, 1).T)],
    ids=str,
)  # fmt: skip
SIZES = pytest.mark.parametrize(("width", "channels"), [(5, 3), (37, 21), (16, 150)])


@DTYPES
@LINES
@SIZES
def test_lines_in_many_chunks(topology, width, channels, dtype, monkeypatch):
    """More states and channels than a tile has, more channels than one task, in several chunks and bundles."""
    monkeypatch.setattr(chunks, "_CHUNK", 16)
    monkeypatch.setattr(chunks, "_BUNDLE", 3 * 16 * 16)
    monkeypatch.setitem(globals(), "N", width)
    monkeypatch.setitem(globals(), "P", channels)
    test_mix(topology, chimera.Sweep(), "state", "kernels", dtype, monkeypatch)


@DTYPES
@SIZES
def test_undirected_lines_in_many_chunks(width, channels, dtype, monkeypatch):
    topology = chimera.batch([chimera.UndirectedLine(n) for n in (37, 1, 25)])
    monkeypatch.setattr(chunks, "_CHUNK", 16)
    monkeypatch.setitem(globals(), "N", width)
    monkeypatch.setitem(globals(), "P", channels)
    test_mix(topology, chimera.SparseLU(), "state", "kernels", dtype, monkeypatch)


SEVERAL = pytest.mark.parametrize(
    "topology", [chimera.GridDAG((10, 5), (1, 0)), chimera.GridDAG((12, 2, 2)), zoo.random_dag(40, 90)], ids=str
)


@DTYPES
@SEVERAL
def test_states_of_long_topologies_are_computed_in_segments(topology, dtype, monkeypatch):
    monkeypatch.setattr(states, "_division", lambda *args, **options: (16, 3))
    test_mix(topology, chimera.Sweep(), "state", "kernels", dtype, monkeypatch)


@DTYPES
def test_lines_beside_other_topologies(dtype, monkeypatch):
    """A sum over a line and a grid goes through the kernel of grids."""
    force_form(monkeypatch, "state")
    topologies = [chimera.Line(12), chimera.GridDAG((4, 3))]
    several = [inputs(t, dtype) for t in topologies]
    weights, Cs, Bs, _, scales = zip(*several, strict=True)
    V = several[0][3]
    arguments = [*weights, *Cs, *Bs, V, *scales]
    references = [x.detach().double().requires_grad_() for x in arguments]
    found = chimera.mix(topologies, weights, Cs, Bs, V, scales)
    w, C, B, (v,), a = references[:2], references[2:4], references[4:6], references[6:7], references[7:]
    terms = zip(topologies, w, C, B, a, strict=True)
    expected = sum(reference_mix(truth(t, x, chimera.Sweep()), c, b, v, s) for t, x, c, b, s in terms)
    assert_same(found, expected, arguments, references, dtype)


@DTYPES
@SEVERAL
def test_states_and_channels_of_several_tasks(topology, dtype, monkeypatch):
    """More states than a block has, more channels than one task, in several segments and bundles."""
    monkeypatch.setattr(states, "_division", lambda *args, **options: (16, 3))
    monkeypatch.setitem(globals(), "N", 37)
    monkeypatch.setitem(globals(), "P", 21)
    test_mix(topology, chimera.Sweep(), "state", "kernels", dtype, monkeypatch)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("topology", [chimera.GridDAG((4, 250_000)), chimera.GridDAG((250_000, 4))], ids=str)
def test_what_crosses_segments_is_bounded(topology, backward):
    segment, bundle = states._division(topology, blocks=16, backward=backward)
    slots = sweep_plan(topology, carry=True).slots
    assert segment * BLOCK <= 2**26
    if backward and segment < topology.num_nodes:
        assert -(-topology.num_nodes // segment) * 16 * (slots + 3) * BLOCK * bundle <= 2**26


def use_engine(monkeypatch, engine):
    """Compiled kernels where there are any, or plain PyTorch as on other devices."""
    if engine == "plain":
        monkeypatch.setitem(dispatch.BACKENDS, "cpu", lambda *tensors: False)


def force_form(monkeypatch, form):
    """Whatever is chosen, or was chosen before for the same topology."""
    forced = {"mask": verbs.mix_by_mask, "state": verbs.mix_by_state}[form]
    monkeypatch.setattr(verbs, "mix_by_mask", forced)
    monkeypatch.setattr(verbs, "mix_by_state", forced)


@ENGINES
@pytest.mark.parametrize("form", ["mask", "state"])
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
def test_mix_of_several_is_the_sum(dags, form, engine, monkeypatch):
    force_form(monkeypatch, form)
    use_engine(monkeypatch, engine)
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


@ENGINES
@pytest.mark.parametrize(("topology", "solver"), CASES)
def test_arguments_and_gradients_are_not_written(topology, solver, engine, monkeypatch):
    """Also if they lie in memory as a solver wants them: then there is nothing to copy before its work in place."""
    use_engine(monkeypatch, engine)
    weight = zoo.bounded_weights(topology, 2).mT.contiguous().mT.requires_grad_()
    rhs, grad = (torch.randn(topology.num_nodes, 2, 16, dtype=torch.float64).transpose(0, 1) for _ in range(2))
    before = [x.detach().clone() for x in (weight, rhs, grad)]
    references = [x.detach().clone().requires_grad_() for x in (weight, rhs)]
    found = torch.autograd.grad(chimera.solve(topology, weight, rhs.requires_grad_(), solver), (weight, rhs), grad)
    for x, original in zip((weight, rhs, grad), before, strict=True):
        assert torch.equal(x, original)
    x = truth(topology, references[0], solver) @ references[1] + 0 * references[0].sum()
    expected = torch.autograd.grad(x, references, before[2])
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b, torch.float64)


NOTHING = torch.empty(2, 0, dtype=torch.long)


@ENGINES
@pytest.mark.parametrize("form", ["mask", "state"])
@pytest.mark.parametrize("width", [0, 3, 16])
@pytest.mark.parametrize("channels", [0, 2, 16])
def test_no_edges_states_or_channels(form, engine, width, channels, monkeypatch):
    """Without edges L = I; without states y = 0, and so are gradients; without channels there is nothing."""
    force_form(monkeypatch, form)
    use_engine(monkeypatch, engine)
    monkeypatch.setitem(globals(), "N", width)
    monkeypatch.setitem(globals(), "P", channels)
    edgeless, union = chimera.Graph(4, NOTHING), chimera.batch([chimera.DAG(4, NOTHING), chimera.DAG(3, NOTHING)])
    for topologies in ([edgeless] * 2, [chimera.DAG(4, NOTHING), chimera.Line(4)], [union] * 2, [edgeless],
                       [chimera.UndirectedLine(6)], [zoo.ZOO["triangle"]], [chimera.GridDAG((2, 3))]):  # fmt: skip
        several = [inputs(t, torch.float64) for t in topologies]
        weights, Cs, Bs, Vs, scales = zip(*several, strict=True)
        arguments = [*weights, *Cs, *Bs, *scales, Vs[0]]
        found = chimera.mix(topologies, weights, Cs, Bs, Vs[0], [100**d * s for d, s in enumerate(scales)])
        expected = sum(
            reference_mix(reference_mask(t, w), c, b, Vs[0], 100**d * s)
            for d, (t, w, c, b, s) in enumerate(zip(topologies, weights, Cs, Bs, scales, strict=True))
        )
        assert_same(found, expected, arguments, arguments, torch.float64)


@ENGINES
@pytest.mark.parametrize("label", SOLVERS)
@pytest.mark.parametrize("name", ["line 2", "undirected lines", "grid dags", "graphs", "no edges"])
def test_solve_for_no_columns(name, label, engine, monkeypatch):
    topology, solver = zoo.ZOO[name], SOLVERS[label]
    if solver is not None and solver.unsupported_reason(topology) is not None:
        pytest.skip("not supported")
    use_engine(monkeypatch, engine)
    weight = zoo.bounded_weights(topology, 2).requires_grad_()
    rhs = torch.empty(2, topology.num_nodes, 0, dtype=torch.float64, requires_grad=True)
    x = chimera.solve(topology, weight, rhs, solver)
    assert x.shape == rhs.shape
    for grad in torch.autograd.grad(x.sum(), (weight, rhs)):
        assert not grad.any()
