"""Dense solves after `torch.set_num_threads`, in processes of their own: it changes MKL for good."""

import subprocess
import sys

import pytest

CODE = """
import torch
import chimera_ssm as chimera
from chimera_ssm.ops.reference import reference_mask, reference_matrix

torch.set_num_threads({threads})
T, heads = 160, 4
graph = chimera.Graph(T, torch.cartesian_prod(torch.arange(T), torch.arange(T)).T)
for dtype, tolerance in ((torch.float32, 1e-4), (torch.float64, 1e-12)):
    torch.manual_seed(0)
    weight = (1.8 * torch.rand(heads, graph.num_edges, dtype=dtype) / T).requires_grad_()
    rhs = torch.rand(heads, T, 5, dtype=dtype, requires_grad=True)
    system = torch.eye(T, dtype=torch.float64) - reference_matrix(graph, weight.detach())
    L = reference_mask(graph, weight.detach())
    assert (system @ L - torch.eye(T, dtype=torch.float64)).abs().max() < 1e-11
    x = chimera.solve(graph, weight, rhs, chimera.Dense())
    assert (system @ x.double() - rhs).abs().max() < tolerance
    grad = torch.rand_like(x)
    dweight, drhs = torch.autograd.grad(x, (weight, rhs), grad)
    adjoint = L.mT @ grad.double()
    source, target = graph.edge_index
    on_edges = (adjoint[:, target] * (L @ rhs.double())[:, source]).sum(-1)
    assert (drhs - adjoint).abs().max() < tolerance * adjoint.abs().max()
    assert (dweight - on_edges).abs().max() < tolerance * on_edges.abs().max()
"""


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_dense_solves_and_their_gradients(threads):
    run = subprocess.run(
        [sys.executable, "-c", CODE.format(threads=threads)], check=False, capture_output=True, text=True, timeout=100
    )
    assert run.returncode == 0, run.stderr[-2000:]
