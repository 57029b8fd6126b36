"""Small graphs by a Triton kernel, in Triton's interpreter: values and every gradient against dense float64."""

import pytest
import torch

pytest.importorskip("triton")

import chimera_ssm as chimera
from chimera_ssm.gpu.availability import assume_gpu, is_interpreted
from chimera_ssm.gpu.launch import recorded_launches
from chimera_ssm.ops import dispatch
from chimera_ssm.ops.dense import triton as dense
from chimera_ssm.ops.dense.triton_kernels import invert
from chimera_ssm.ops.terms import Term
from tests import zoo
from tests.chimera_ssm.ops.comparison import Computing, check_mix, inputs

interpreted = pytest.mark.skipif(not is_interpreted(), reason="make test-gpu runs it in Triton's interpreter")
TOPOLOGIES = {
    "two nodes": chimera.UndirectedLine(2),
    "loops": chimera.Graph(3, [[0, 1, 1, 2], [0, 1, 2, 1]]),
    "16 nodes": zoo.random_graph(16, 30),
    "33 nodes, isolated ones among them": zoo.random_graph(33, 20),
    "batch": chimera.batch([zoo.molecule(20), chimera.Graph(1, [[], []]), zoo.molecule(7)]),
}


@pytest.fixture
def sizes(monkeypatch):
    """Shapes that were inverted by the kernel."""
    found = []

    def inverse(weight, entry, *shape):
        found.append((len(weight), *shape))
        return dense.block_inverse(weight, entry, *shape)

    monkeypatch.setattr(dense, "_operator", inverse)
    return found


@interpreted
@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_values_and_gradients(topology, sizes):
    check_mix(topology, chimera.Dense(), torch.float32)
    assert sizes


@interpreted
def test_molecules_of_160_nodes(sizes):
    topology = chimera.batch([zoo.molecule(160), zoo.molecule(3)])
    weight = zoo.bounded_weights(topology, 1, 1)[0].float().requires_grad_()
    rhs = torch.randn(1, 163, 2, requires_grad=True)
    x = chimera.solve(topology, weight, rhs, chimera.Dense())
    expected = chimera.solve(topology, weight.double(), rhs.double(), chimera.Dense())
    torch.testing.assert_close(x.double(), expected, rtol=1e-5, atol=1e-5)
    grads = [torch.autograd.grad(y.sum(), (weight, rhs)) for y in (x, expected)]
    torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-5)
    assert sizes == [(1, 2, 160)]


@interpreted
@pytest.mark.parametrize("size", [1, 5, 17, 40])
def test_pivots_are_chosen(size):
    """Matrices whose diagonal is zero."""
    A = torch.randn(3, size, size, generator=torch.Generator().manual_seed(0))
    A.diagonal(dim1=-2, dim2=-1).fill_(2.0 if size == 1 else 1.0)
    expected = torch.linalg.inv(torch.eye(size, dtype=torch.float64) - A.double())
    found = dense.inverse(torch.eye(size) - A)
    assert (found - expected).abs().max() < 1e-5 * expected.abs().max()


@interpreted
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_singular_matrices_leave_others_alone():
    A = torch.stack([torch.eye(4), torch.full((4, 4), torch.nan), torch.zeros(4, 4)])
    singular, nan, one = dense.inverse(torch.eye(4) - A)
    assert not singular.isfinite().all()
    assert nan.isnan().all()
    assert one.equal(torch.eye(4))


@interpreted
def test_second_derivatives_of_a_mix():
    """Of a mix that is linear in V: twice ``Mᵀ M 1``."""
    topology = TOPOLOGIES["loops"]
    weight, C, B, V, scale = inputs(topology, torch.float32)

    def apply(v):
        return chimera.mix(topology, weight, C, B, v, scale, chimera.Dense())

    (first,) = torch.autograd.grad(apply(V).pow(2).sum(), V, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), V)
    _, squared = torch.autograd.functional.vjp(apply, V, apply(torch.ones_like(V)))
    torch.testing.assert_close(second, 2 * squared, rtol=1e-3, atol=1e-4)


@interpreted
def test_parts_that_are_not_finite_leave_others_alone():
    topology = chimera.batch([zoo.molecule(7), zoo.molecule(20), chimera.Graph(1, [[], []])])
    arguments = inputs(topology, torch.float32)
    with torch.no_grad():
        arguments[3][:, :, :7] = torch.nan
    found = chimera.mix(topology, *arguments, solver=chimera.Dense())
    gradients = torch.autograd.grad(found[:, :, 7:].sum(), arguments)
    assert found[:, :, :7].isnan().all()
    assert found[:, :, 7:].isfinite().all()
    assert all(gradient[:, :, 7:].isfinite().all() for gradient in gradients[1:4])


def test_launches_of_a_mix_on_molecules():
    """With the launches of PyTorch, at most 12 forward and 20 backward."""
    topology = chimera.batch([zoo.molecule(20), zoo.molecule(7)])
    weight, C, B, V, scale = (x.detach().to("meta").requires_grad_() for x in inputs(topology, torch.float32))
    with assume_gpu(), recorded_launches() as launches:
        with Computing() as forward:
            y = dense.mix([Term(topology, weight, C, B, scale, "dense")], V)
        assert [launch.kernel for launch in launches] == [invert]
        with Computing() as backward:
            torch.autograd.grad(y, [weight, C, B, V, scale], torch.empty_like(y))
    assert len(launches) == 1
    assert len(forward.names) + 1 <= 12
    assert len(backward.names) <= 20


@interpreted
def test_second_derivatives():
    topology = TOPOLOGIES["loops"]
    weight = zoo.bounded_weights(topology, 1, 1)[0].float().requires_grad_()
    rhs = torch.eye(3).unsqueeze(0)

    def second(weight, rhs):
        (first,) = torch.autograd.grad(
            chimera.solve(topology, weight, rhs, chimera.Dense()).sum(), weight, create_graph=True
        )
        return torch.autograd.grad(first.sum(), weight)[0]

    expected = second(weight.detach().double().requires_grad_(), rhs.double())
    torch.testing.assert_close(second(weight, rhs).double(), expected, rtol=1e-4, atol=1e-5)


def test_other_topologies_are_left_to_other_backends():
    weight = torch.empty(1, 0)
    assert not dense.supports(zoo.random_dag(20, 30), weight)
    assert not dense.supports(zoo.molecule(257), weight)
    assert dense.supports(zoo.molecule(256), weight)


@interpreted
def test_double_precision_is_left_to_pytorch():
    topology = TOPOLOGIES["16 nodes"]
    found = dispatch.find("factorize", "dense", topology, torch.zeros(1, topology.num_edges, dtype=torch.float64))
    assert found is not None
    assert found.backend == "torch"
