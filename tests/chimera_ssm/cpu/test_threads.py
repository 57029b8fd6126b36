"""The compiled kernels as guests of a process: threads, forks, repeatability, and life without Numba."""

import multiprocessing
import platform
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from numba import njit

import chimera_ssm as chimera
from chimera_ssm.cpu import simd
from chimera_ssm.cpu.availability import can_use_kernels
from chimera_ssm.cpu.denormals import denormals_as_zero
from chimera_ssm.ops.neumann.cpu import series
from chimera_ssm.ops.sparse_lu import cpu as lu
from chimera_ssm.ops.sweep.plan import sweep_plan
from chimera_ssm.ops.terms import Term
from tests import zoo


@njit
def _vector_arithmetic(a, out):
    x, y = simd.vload(a, 0), simd.vload(a, 16)
    simd.vstore(out, 0, x * y + 2 * x - y)
    simd.store(out, 16, simd.horizontal_sum(x))
    simd.store(out, 17, simd.load(a, 11))
    simd.add_totals(out, 18, x, y, x + y, simd.splat(simd.load(a, 1)))
    simd.vstore(out, 22, simd.fma(3, simd.vload_8(a, 1), simd.vload_8(a, 2)))
    simd.store(out, 30, simd.horizontal_sum(simd.vload_4(a, 5) * simd.splat_4(simd.load(a, 2))))
    memory = simd.aligned_empty(17, a.dtype)
    simd.store(out, 31, a.dtype.type(memory.ctypes.data % (16 * a.itemsize)) + memory.size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors(dtype):
    a = np.arange(32, dtype=dtype) + 1
    out = np.ones(32, dtype=dtype)
    _vector_arithmetic(a, out)
    x, y = a[:16], a[16:]
    sums = 1 + np.array([x.sum(), y.sum(), x.sum() + y.sum(), 16 * a[1]])
    others = 3 * a[1:9] + a[2:10], [a[5:9].sum() * a[2], 17]
    np.testing.assert_allclose(out, np.concatenate([x * y + 2 * x - y, [x.sum(), a[11]], sums, *others]))


@njit
def _halve(a):
    a[0] = a[0] / 2


def test_denormal_numbers_are_zero_within_kernels_only():
    smallest = np.finfo(np.float32).smallest_normal
    a, b = np.array([smallest]), np.array([smallest])
    with denormals_as_zero():
        _halve(a)
    _halve(b)
    assert a[0] == 0 or not _x86()
    assert b[0] == smallest / 2
    with pytest.raises(ZeroDivisionError), denormals_as_zero():
        1 // 0  # noqa: B018
    _halve(b)
    assert b[0] == smallest / 4


def _x86():
    return platform.machine().lower() in ("x86_64", "amd64")


@njit
def _vector_functions(a, b, out):
    for k in range(0, a.size, 16):
        simd.vstore(out, k, simd.exp(simd.vload(a, k)) / simd.vload(b, k))


@pytest.mark.parametrize(("dtype", "bound", "ulps"), [(np.float32, 87, 4), (np.float64, 708, 4)])
def test_functions_of_vectors(dtype, bound, ulps):
    """Within a few units of the last place; what is too large or too small stays finite, NaN stays NaN."""
    a = np.random.default_rng(0).uniform(-bound, bound, 4096).astype(dtype)
    a[:9] = 0, 1, -1, bound, -bound, 2 * bound, -2 * bound, np.inf, -np.inf
    b = np.linspace(0.5, 2, a.size, dtype=dtype)
    out = np.empty_like(a)
    _vector_functions(a, b, out)
    expected = np.exp(np.clip(a, -bound, bound).astype(np.longdouble)) / b
    np.testing.assert_allclose(out, expected.astype(dtype), rtol=ulps * np.finfo(dtype).eps)
    a[:16] = np.nan
    _vector_functions(a[:16], b[:16], out[:16])
    assert np.isnan(out[:16]).all()


@pytest.mark.parametrize(
    ("topology", "slots", "carried"),
    [(chimera.Line(50), 1, 0), (chimera.GridDAG((6, 9), (1, 1)), 10, 9), (zoo.complete_dag(12), 12, 11)],
)
def test_rows_live_in_few_places(topology, slots, carried):
    """A line's row is handed on, a grid keeps one row of nodes, a complete DAG everything."""
    assert sweep_plan(topology, carry=False).slots <= slots
    assert sweep_plan(topology, carry=True).slots <= carried


def problem(topology, dtype=torch.float32, heads=4, state=16, channels=32, batch=3):
    torch.manual_seed(0)
    nodes = topology.num_nodes
    weight = zoo.bounded_weights(topology, batch, heads, dtype=dtype).requires_grad_()
    C, B = (torch.randn(batch, 1, nodes, state, dtype=dtype, requires_grad=True) for _ in range(2))
    V = torch.randn(batch, heads, nodes, channels, dtype=dtype, requires_grad=True)
    return topology, [weight, C, B, V]


def solve_and_differentiate(topology, arguments):
    y = chimera.mix(topology, *arguments)
    return [y.detach(), *torch.autograd.grad(y.square().sum(), arguments)]


CASES = {
    "masks": problem(chimera.GridDAG((7, 8))),
    "states": problem(chimera.Line(700), state=4),
    "undirected": problem(chimera.UndirectedLine(700), state=4),
    "graph": problem(zoo.molecule(60)),
    "graph, states": problem(zoo.molecule(900), state=4),
}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("N", "P", "groups"), [(16, 16, 1), (32, 48, 2), (3, 5, 2)])
@pytest.mark.parametrize(
    "topologies",
    [
        [chimera.Line(4)],
        chimera.UndirectedLine(13).dags(),
        chimera.Grid((3, 5)).dags(),
        [zoo.complete_dag(9)],
        [zoo.random_dag(11, 20), chimera.Line(11)],
        [chimera.Line(3)],
    ],
    ids=str,
)
def test_small_mixes(topologies, N, P, groups, shared):
    """What is done in one call (N and P multiples of 16, T at least 4) and what is not: strided and expanded alike."""
    torch.manual_seed(0)
    T, count = topologies[0].num_nodes, len(topologies)
    weights = [torch.randn(2, 4, t.num_edges, dtype=torch.float64, requires_grad=True) for t in topologies]
    C, B = torch.randn(2, count, T, 2, groups, N, dtype=torch.float64, requires_grad=True).unbind(0)
    Cs, Bs = (list(x.permute(0, 2, 3, 1, 4).unbind(0)) for x in (C, B))
    if shared:
        Cs, Bs = [Cs[0]] * count, [Bs[0]] * count
    V = torch.randn(2, T, 4, P, dtype=torch.float64, requires_grad=True).transpose(1, 2)
    scales = [torch.randn(2, 4, T, dtype=torch.float64, requires_grad=True) for _ in topologies]
    inputs = [*weights, *scales, C, B, V]

    def results(solver):
        y = chimera.mix(list(topologies), weights, Cs, Bs, V, scales, solver=solver)
        return [y, *torch.autograd.grad(y, inputs, torch.tensor(0.5, dtype=y.dtype).expand_as(y))]

    for found, expected in zip(results(None), results(chimera.Dense()), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


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


@pytest.fixture
def threads(monkeypatch):
    """Sets what the kernels ask for. (Setting it in PyTorch would make MKL's later inverses hang.)"""
    return lambda count: monkeypatch.setattr(torch, "get_num_threads", lambda: count)


def test_threads_follow_pytorch():
    code = (
        "import torch, chimera_ssm as c; from chimera_ssm.cpu import threads as pool\n"
        "for n in (1, 2): torch.set_num_threads(n); assert pool.threads_for(1e12) == n\n"
        "assert c.mix(c.Line(5000), torch.rand(8, 4999), *torch.rand(3, 8, 5000, 16)).isfinite().all()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("name", CASES)
def test_repeatable_bitwise_and_the_same_with_more_threads(name, threads):
    results = {}
    for count in (1, 2, 2, 3):
        threads(count)
        found = solve_and_differentiate(*CASES[name])
        for a, b in zip(found, results.get(count, found), strict=True):
            assert torch.equal(a, b)
        results[count] = found
    for count in (2, 3):
        for a, b in zip(results[count], results[1], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_two_python_threads(name, threads):
    threads(2)
    expected = solve_and_differentiate(*CASES[name])
    failures = []

    def work():
        for _ in range(5):
            found = solve_and_differentiate(*CASES[name])
            failures.extend(
                not torch.equal(a, b) for a, b in zip(found, expected, strict=True) if not torch.equal(a, b)
            )

    workers = [threading.Thread(target=work) for _ in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not failures


def _in_a_child(queue):
    torch.set_num_threads(1)  # as a DataLoader worker does
    queue.put([x.double().sum().item() for x in solve_and_differentiate(*CASES["masks"])])


def test_a_forked_worker(threads):
    threads(1)
    expected = [x.double().sum().item() for x in solve_and_differentiate(*CASES["masks"])]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_a_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == pytest.approx(expected)
    child.join(60)
    assert child.exitcode == 0


def test_without_numba_plain_pytorch_takes_over_and_says_so_once():
    code = (
        "import sys, logging; logging.basicConfig(); sys.modules['numba'] = None\n"
        "import torch, chimera_ssm as c\n"
        "for _ in range(3): c.mix(c.Line(5), torch.rand(1, 4), *torch.rand(3, 1, 5, 2))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stderr.count("numba is not installed") == 1


@pytest.mark.parametrize("name", CASES)
def test_inference_mode_then_training(name):
    """In a thread of its own, so that nothing is kept from other tests."""
    topology, arguments = CASES[name]
    expected = solve_and_differentiate(topology, arguments)
    found = []

    def work():
        with torch.inference_mode():
            found.append(chimera.mix(topology, *arguments))
        found.extend(solve_and_differentiate(topology, arguments)[1:])

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)


def test_kernels_take_cpu_floats_only():
    assert can_use_kernels(torch.zeros(1), torch.zeros(1, dtype=torch.float64))
    assert not can_use_kernels(torch.zeros(1, device="meta"))
    assert not can_use_kernels(torch.zeros(1, dtype=torch.bfloat16))


def test_nothing_as_large_as_all_states_is_kept():
    """T·N·P = 2²² numbers for each head; what autograd keeps is far less."""
    line = chimera.Line(4096)
    weight, V = torch.rand(1, 4095, requires_grad=True), torch.randn(1, 4096, 32)
    C, B = (torch.randn(1, 4096, 32, requires_grad=True) for _ in range(2))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        chimera.mix(line, weight, C, B, V)
    assert 0 < sum(kept) < 4096 * 32 * 32 / 4


@pytest.mark.parametrize("columns", [1, 17, 48])
def test_a_series_has_the_terms_of_each_part(columns):
    parts = [zoo.random_graph(7, 16), chimera.Graph(1, np.empty((2, 0), int)), zoo.random_graph(12, 30)]
    graph, powers = chimera.batch(parts), (4, 0, 9)
    generator = torch.Generator().manual_seed(0)
    weight = (0.3 * torch.rand(3, graph.num_edges, dtype=torch.float64, generator=generator)).requires_grad_()
    rhs = torch.randn(3, graph.num_nodes, columns, dtype=torch.float64, generator=generator).requires_grad_()
    terms, found = [], series(graph, weight, rhs, powers)
    for w, b, part, power in zip(
        weight.split([p.num_edges for p in parts], 1), rhs.split([7, 1, 12], 1), parts, powers, strict=True
    ):
        source, target = part.edge_index
        A = torch.zeros(3, part.num_nodes, part.num_nodes, dtype=torch.float64)
        A = A.index_put((torch.arange(3)[:, None], target[None], source[None]), w)
        terms.append(sum((torch.linalg.matrix_power(A, k) @ b for k in range(1, power + 1)), b))
    truth, gradient = torch.cat(terms, 1), torch.randn_like(rhs)
    torch.testing.assert_close(found, truth, rtol=0, atol=1e-12)
    for ours, theirs in zip(
        torch.autograd.grad(found, (weight, rhs), gradient),
        torch.autograd.grad(truth, (weight, rhs), gradient),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)
