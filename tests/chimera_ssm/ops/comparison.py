"""What every solver is compared with: the dense truth in float64, for values and every gradient."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import chimera_ssm as chimera
from chimera_ssm.ops import functional as verbs
from chimera_ssm.ops.reference import reference_mask, reference_mix, reference_series
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
#: Every solver on every topology that it supports.
CASES = [
    pytest.param(topology, solver, id=f"{name}-{label}")
    for name, topology in zoo.ZOO.items()
    for label, solver in SOLVERS.items()
    if solver is None or solver.unsupported_reason(topology) is None
]
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4}
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
Z, H, G, N, P = 2, 4, 2, 3, 5


def inputs(topology, dtype, width=N, channels=P):
    """Weight, C, B, V and scale, all to be differentiated."""
    generator = torch.Generator().manual_seed(1)
    T = topology.num_nodes
    shapes = (Z, G, T, width), (Z, G, T, width), (Z, H, T, channels)
    tensors = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    scale = torch.rand(Z, H, T, generator=generator, dtype=torch.float64)
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


def check_mix(topology, solver, dtype, width=N, channels=P):
    """The mix of a solver is that of its dense truth."""
    arguments = inputs(topology, dtype, width, channels)
    references = [x.detach().double().requires_grad_() for x in arguments]
    found = chimera.mix(topology, *arguments, solver=solver)
    expected = reference_mix(truth(topology, references[0], solver), *references[1:])
    assert_same(found, expected, arguments, references, dtype)


def check_half(topologies, bound=1e-2):
    """The mix of V, B and C in bfloat16 has a small relative root mean square error, and so have all gradients."""
    given = [inputs(t, torch.float32, 16, 16) for t in topologies]
    C, B, V = (x.detach().bfloat16().requires_grad_() for x in given[0][1:4])
    weights, scales = [x[0] for x in given], [x[4] for x in given]
    tensors, n = [V, C, B, *weights, *scales], len(topologies)
    references = [x.detach().double().requires_grad_() for x in tensors]
    found = chimera.mix(topologies, weights, [C] * n, [B] * n, V, scales)
    terms = zip(topologies, references[3 : 3 + n], references[3 + n :], strict=True)
    expected = sum(reference_mix(reference_mask(t, w), *references[1:3], references[0], s) for t, w, s in terms)
    grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2)).bfloat16()
    gradients = torch.autograd.grad(found, tensors, grad)
    assert [x.dtype for x in (found, *gradients)] == [torch.bfloat16] * 4 + [torch.float32] * 2 * n
    pairs = zip((found, *gradients), (expected, *torch.autograd.grad(expected, references, grad.double())), strict=True)
    for a, b in pairs:
        assert (a.double() - b).square().mean().sqrt() < bound * b.square().mean().sqrt()


def force_form(monkeypatch, form):
    """Whatever is chosen, or was chosen before for the same topology."""
    forced = {"mask": verbs.mix_by_mask, "state": verbs.mix_by_state}[form]
    monkeypatch.setattr(verbs, "mix_by_mask", forced)
    monkeypatch.setattr(verbs, "mix_by_state", forced)


def assert_finite(topology, weight, *features):
    """The mix, which is finite, and so are its gradients."""
    arguments = [x.detach().requires_grad_() for x in (weight, *features)]
    y = chimera.mix(topology, *arguments)
    assert y.isfinite().all()
    for grad in torch.autograd.grad(y.square().mean(), arguments):
        assert grad.isfinite().all()
    return y


def features(num_nodes, dtype=torch.float32, heads=2):
    """C, B and V."""
    return [torch.randn(n, num_nodes, k, dtype=dtype) for n, k in ((1, 4), (1, 4), (heads, 4))]


class Computing(TorchDispatchMode):
    """Names of the operations of PyTorch that compute something, and so launch a kernel on a GPU."""

    FREE = ("empty", "empty_like", "new_empty", "detach", "unbind", "_unsafe_view", "promote_types")

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        self.names += [] if func.is_view or name in self.FREE else [name]
        return func(*args, **(kwargs or {}))
