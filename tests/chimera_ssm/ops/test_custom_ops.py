"""The verbs as operators: what PyTorch demands of an operator, and the eager values and gradients under compile."""

import pytest
import torch
from torch.library import opcheck

import chimera_ssm as chimera
from chimera_ssm.ops import custom_ops as operators
from chimera_ssm.ops.custom_ops import as_operators
from tests import zoo

H, G, N, P = 4, 2, 3, 5
DAGS = chimera.Grid((3, 4)).dags()
CASES = {
    "line": ([chimera.Line(9)], None),
    "lines both ways": (chimera.UndirectedLine(12).dags(), None),
    "undirected line": ([chimera.UndirectedLine(9)], None),
    "four corners": (DAGS, None),
    "dag": ([zoo.random_dag(12, 20)], None),
    "dag by squaring": ([zoo.random_dag(12, 20)], chimera.Squaring()),
    "graph": ([zoo.molecule(20)], None),
    "graph, dense": ([zoo.random_graph(12, 14)], chimera.Dense()),
    "graph, truncated": ([zoo.random_graph(12, 14)], chimera.Neumann(terms=3)),
    "graphs": ([chimera.batch([zoo.molecule(11), chimera.Line(4), chimera.Grid((2, 2))])], None),
    "no edges": ([zoo.OTHERS["no edges"]], None),
}
EVERY = pytest.mark.parametrize(("topologies", "solver"), CASES.values(), ids=CASES)


def tensors_of(topologies, dtype=torch.float32, lead=(2,), scale=True):
    """Arguments of a mix that need gradients: V, weights, Cs, Bs, scales; B and C of the first two are the same."""
    torch.manual_seed(0)
    T = topologies[0].num_nodes
    weights = [zoo.bounded_weights(t, *lead, H, dtype=dtype).requires_grad_() for t in topologies]
    Cs, Bs = ([torch.randn(*lead, G, T, N, dtype=dtype, requires_grad=True)] * 2 for _ in "CB")
    Cs += [torch.randn(*lead, G, T, N, dtype=dtype, requires_grad=True) for _ in topologies[2:]]
    Bs += [torch.randn(*lead, G, T, N, dtype=dtype, requires_grad=True) for _ in topologies[2:]]
    scales = [torch.rand(*lead, H, T, dtype=dtype, requires_grad=True) for _ in topologies] if scale else []
    V = torch.randn(*lead, H, T, P, dtype=dtype, requires_grad=True)
    return V, weights, Cs[: len(topologies)], Bs[: len(topologies)], scales


def names_of(topologies, solver):
    return ";".join(t.spec for t in topologies), operators.name_of(solver)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lines both ways", "undirected line", "dag", "graph", "graph, truncated", "graphs"])
def test_the_operators_are_well_made(name):
    topologies, solver = CASES[name]
    V, weights, Cs, Bs, scales = tensors_of(topologies)
    ops, (names, by) = torch.ops.chimera_ssm, names_of(topologies, solver)
    opcheck(ops.mix.default, (V, weights, Cs, Bs, scales, names, by))
    flat = [x.detach() for x in (V, *weights, *Cs, *Bs, *scales)]
    opcheck(ops.mix_backward.default, (torch.randn_like(flat[0]), flat, names, by))
    w, rhs, name = weights[0], V, topologies[0].spec
    opcheck(ops.solve.default, (w, rhs, name, by))
    opcheck(ops.solve_backward.default, (torch.randn_like(rhs), w.detach(), rhs.detach(), name, by))
    opcheck(ops.mask.default, (w, name, by))
    T = topologies[0].num_nodes
    opcheck(ops.mask_backward.default, (torch.randn(2, H, T, T), w.detach(), name, by))


def check_against_eager(function, tensors, backend="aot_eager", **options):
    """Values and all gradients of the compiled function are those of the eager one."""
    torch._dynamo.reset()
    results = []
    for run in (function, torch.compile(function, fullgraph=True, backend=backend, **options)):
        y = run(*tensors)
        weight = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).view(y.shape).to(y.dtype)
        results.append((y, torch.autograd.grad((y * weight).sum(), tensors, allow_unused=True)))
    (expected, gradients), (found, found_gradients) = results
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(found_gradients, gradients, strict=True):
        torch.testing.assert_close(ours, torch.zeros_like(ours) if theirs is None else theirs)


@pytest.mark.slow
@EVERY
@pytest.mark.usefixtures("engine")
def test_compiled_mixes_are_the_eager_ones(topologies, solver):
    V, *lists = tensors_of(topologies, torch.float64)
    distinct = list({id(x): x for xs in ([V], *lists) for x in xs}.values())
    places = [[next(k for k, y in enumerate(distinct) if y is x) for x in xs] for xs in lists]

    def mix(*tensors):
        weights, Cs, Bs, scales = ([tensors[k] for k in row] for row in places)
        return chimera.mix(topologies, weights, Cs, Bs, tensors[0], scales, solver)

    check_against_eager(mix, distinct)


@pytest.mark.slow
@EVERY
def test_compiled_solves_and_masks_are_the_eager_ones(topologies, solver):
    rhs, (weight, *_), *_ = tensors_of(topologies, torch.float64)
    check_against_eager(lambda w, b: chimera.solve(topologies[0], w, b, solver), [weight, rhs])
    check_against_eager(lambda w: chimera.mask(topologies[0], w, solver), [weight])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_precision_and_broadcasting(dtype):
    V, weights, Cs, Bs, scales = tensors_of(DAGS[:1], dtype, lead=(1, 3))
    V = torch.randn(2, 1, H, 12, P, dtype=dtype, requires_grad=True)
    check_against_eager(
        lambda V, w, C, B, s: chimera.mix(DAGS[0], w, C, B, V, s), [V, weights[0], Cs[0], Bs[0], scales[0]]
    )


def test_some_scales_and_none():
    V, weights, Cs, Bs, _ = tensors_of(DAGS, scale=False)
    scale = torch.rand(2, H, 12, requires_grad=True)
    check_against_eager(lambda V: chimera.mix(DAGS, weights, Cs, Bs, V), [V])
    check_against_eager(lambda V, s: chimera.mix(DAGS, weights, Cs, Bs, V, [s, None, s, None]), [V, scale])


@pytest.mark.parametrize("topologies", [DAGS, [chimera.Line(40)], [zoo.molecule(20)]], ids=["grid", "line", "graph"])
def test_the_forward_pass_is_not_repeated_for_the_backward_pass(topologies, monkeypatch):
    """On compiled kernels: the values are known by then. The factors of a graph are made again."""
    from chimera_ssm.cpu import threads as pool
    from chimera_ssm.ops.sparse_lu import kernels as lu

    calls, run = [], pool.run

    def counted(kernel, *args, **options):
        calls.append(kernel)
        run(kernel, *args, **options)

    monkeypatch.setattr(pool, "run", counted)
    V, weights, Cs, Bs, scales = tensors_of(topologies)
    chimera.mix(topologies, weights, Cs, Bs, V, scales).sum().backward()
    eager = len(calls)
    calls.clear()
    torch.ops.chimera_ssm.mix(V, weights, Cs, Bs, scales, *names_of(topologies, None)).sum().backward()
    assert eager > 1
    assert len(calls) - (lu.factorize in calls) == eager


@pytest.mark.parametrize("solver", [None, chimera.Dense(), chimera.Neumann(terms=7, squared=True), chimera.Neumann()])
def test_solvers_by_name(solver):
    assert operators.solver_of(operators.name_of(solver)) == solver


def test_unknown_names_are_said():
    with pytest.raises(ValueError, match=r"no class 'Guess' among .*Sweep.*import"):
        operators.solver_of("Guess()")


def test_bad_shapes_are_refused_while_compiling():
    with pytest.raises(Exception, match=r"weight must have shape \[..., H, 8\]"):
        torch.compile(chimera.mask, fullgraph=True, backend="aot_eager")(chimera.Line(9), torch.rand(1, 7))


def test_verbs_as_operators_have_the_same_values():
    grid, weight = chimera.GridDAG((3, 4)), torch.rand(2, 17, dtype=torch.float64) / 2
    with as_operators():
        L = chimera.mask(grid, weight)
    torch.testing.assert_close(L, chimera.mask(grid, weight))


# Mixes with states

LINES = pytest.mark.parametrize(
    "topology", [chimera.Line(20), chimera.batch([chimera.Line(5), chimera.Line(1), chimera.Line(70)])], ids=str
)


def with_states(topology):
    V, (weight,), (C,), (B,), (scale,) = tensors_of([topology])
    parts = (topology.num_parts,) if isinstance(topology, chimera.Batch) else ()
    return V, weight, C, B, scale, torch.randn(*parts, H, N, P, requires_grad=True)


@pytest.mark.slow
@LINES
def test_the_operator_with_states_is_well_made(topology):
    tensors, ops = with_states(topology), torch.ops.chimera_ssm
    opcheck(ops.mix_states.default, (*tensors, topology.spec))
    grads = [torch.randn_like(x) for x in ops.mix_states(*tensors, topology.spec)]
    opcheck(ops.mix_states_backward.default, (*grads, [x.detach() for x in tensors], topology.spec))


@LINES
def test_mixes_with_states_as_operators(topology):
    V, weight, C, B, scale, state = tensors = with_states(topology)

    def mix(initial=state, scale=scale):
        return chimera.mix(topology, weight, C, B, V, scale, initial_state=initial, return_state=True)

    expected = mix()
    with as_operators():
        found = mix()
        torch.testing.assert_close(mix(None, None), mix(torch.zeros_like(state), torch.ones_like(scale)))
    torch.testing.assert_close(found, expected)
    grads = [torch.randn_like(x) for x in expected]
    of_found, of_expected = (torch.autograd.grad(results, tensors, grads) for results in (found, expected))
    torch.testing.assert_close(of_found, of_expected)


@pytest.mark.slow
def test_mixes_with_states_under_compile():
    line = chimera.Line(20)
    tensors = with_states(line)

    def function(V, weight, C, B, scale, state):
        y, state = chimera.mix(line, weight, C, B, V, scale, initial_state=state, return_state=True)
        return torch.cat([y.flatten(), state.flatten()])

    check_against_eager(function, tensors)
