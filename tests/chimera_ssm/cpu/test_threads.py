"""Kernels and threads: repeatable bitwise, from several threads at once, in forked workers."""

import multiprocessing
import subprocess
import sys
import threading

import pytest
import torch

import chimera_ssm as chimera
from tests import zoo


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


@pytest.fixture
def threads(monkeypatch):
    """Sets what the kernels ask for. (Setting it in PyTorch would make MKL's later inverses hang.)"""
    return lambda count: monkeypatch.setattr(torch, "get_num_threads", lambda: count)


@pytest.mark.slow
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
