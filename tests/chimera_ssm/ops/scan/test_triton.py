"""Lines by Triton kernels, in Triton's interpreter: values and every gradient against dense float64."""

import pytest
import torch

pytest.importorskip("triton")

import chimera_ssm as chimera
from chimera_ssm.gpu.availability import is_interpreted
from chimera_ssm.ops import dispatch
from chimera_ssm.ops.reference import reference_mix
from chimera_ssm.ops.scan import triton as scan
from chimera_ssm.ops.scan.triton import chunk_plan
from tests.chimera_ssm.ops.comparison import assert_same, check_half, inputs, truth
from tests.chimera_ssm.ops.test_states import LINES, entering
from tests.chimera_ssm.ops.test_states import assert_same as assert_same_states

interpreted = pytest.mark.skipif(not is_interpreted(), reason="make test-gpu runs it in Triton's interpreter")
SHUFFLED = chimera.DAG(70, torch.randperm(70, generator=torch.Generator().manual_seed(0)).unfold(0, 2, 1).T)
TOPOLOGIES = {
    **{f"line of {n}": chimera.Line(n) for n in (1, 2, 33, 63, 100, 257)},
    "reversed": chimera.Line(66, reverse=True),
    "packed": chimera.batch([chimera.Line(n) for n in (40, 1, 35)]),
    "shuffled": SHUFFLED,
}


@pytest.fixture
def counted(monkeypatch):
    """The number of calls of the kernels' forward pass."""
    calls = []

    def forward(*args):
        calls.append(args)
        return scan.scan_forward(*args)

    monkeypatch.setattr(scan, "_forward_operator", forward)
    return calls


def check(topologies, width=3, channels=5, change=lambda weight: weight, tolerance=None):
    """The mix is the sum of its dense truths."""
    arguments = [inputs(t, torch.float32, width, channels) for t in topologies]
    C, B, V = arguments[0][1:4]
    weights = [change(a[0].detach()).requires_grad_() for a in arguments]
    scales = [a[4] for a in arguments]
    tensors = [*weights, C, B, V, *scales]
    references = [x.detach().double().requires_grad_() for x in tensors]
    n = len(topologies)
    found = chimera.mix(topologies, weights, [C] * n, [B] * n, V, scales)
    refs = zip(topologies, references[:n], references[n + 3 :], strict=True)
    expected = sum(reference_mix(truth(t, w, None), *references[n : n + 3], s) for t, w, s in refs)
    assert_same(found, expected, tensors, references, torch.float32)


@interpreted
@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_values_and_gradients(topology, counted):
    assert dispatch.can_use_triton(torch.zeros(1))
    check([topology])
    assert counted


@interpreted
@pytest.mark.parametrize("change", [lambda w: -w, lambda w: w * (torch.arange(w.shape[-1]) % 7 > 0)])
def test_weights_zero_or_negative(change):
    check([chimera.Line(70)], change=change)


@interpreted
@pytest.mark.parametrize(("width", "channels"), [(70, 5), (3, 70), (64, 64)])
def test_several_blocks_of_states_and_channels(width, channels):
    check([chimera.Line(50)], width, channels)


@interpreted
def test_both_ways_at_once():
    check([chimera.Line(45), chimera.Line(45, reverse=True)])


@interpreted
def test_an_undirected_line(counted):
    arguments = inputs(chimera.UndirectedLine(80), torch.float32)
    references = [x.detach().double().requires_grad_() for x in arguments]
    found = chimera.mix(chimera.UndirectedLine(80), *arguments)
    expected = reference_mix(truth(chimera.UndirectedLine(80), references[0], None), *references[1:])
    assert_same(found, expected, arguments, references, torch.float32)
    assert counted


@interpreted
@pytest.mark.parametrize("name", ["one node", "long line", "reversed", "packed", "packed reversed"])
def test_states_in_and_out(name, counted):
    assert_same_states(LINES[name], inputs(LINES[name], torch.float32), entering(LINES[name], torch.float32))
    assert counted


@interpreted
@pytest.mark.parametrize(
    ("dtype", "precision", "bound"), [(torch.float32, "high", 5e-4), (torch.bfloat16, "highest", 1e-2)]
)
def test_low_precision(dtype, precision, bound):
    """The relative root mean square error of y and of the gradients of the tensors in low precision."""
    torch.manual_seed(0)
    line = chimera.Line(100)
    weight, C, B, V, scale = (x.detach() for x in inputs(line, torch.float32, 16, 16))
    C, B, V = (x.to(dtype) for x in (C, B, V))
    tables, sizes = scan.chunk_tables([line], V.device)
    given, g = ([weight], [scale], [C], [B], tables, sizes, False), torch.randn_like(V)
    references = [x.double().requires_grad_() for x in (V, weight, scale, C, B)]
    expected = reference_mix(truth(line, references[1], None), *(references[k] for k in (3, 4, 0, 2)))
    gradients = torch.autograd.grad(expected, references, g.double())
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        y, _ = scan.scan_forward(V, None, *given)
        dV, _, *others = scan.scan_backward(g, None, V, None, *given)
    finally:
        torch.set_float32_matmul_precision(before)
    for found, truth_ in zip((y, dV, *others), (expected, *gradients), strict=True):
        error = (found.double() - truth_).pow(2).mean().sqrt() / truth_.pow(2).mean().sqrt()
        assert error < bound


@interpreted
@pytest.mark.parametrize("ways", [1, 2])
def test_mix_takes_16_bits_as_they_are(ways, counted):
    check_half([chimera.Line(70), chimera.Line(70, reverse=True)][:ways])
    ((V, _, weights, _, (C, *_), *_),) = counted
    assert (V.dtype, C.dtype, weights[0].dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)


@interpreted
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_second_derivatives(dtype):
    line = chimera.Line(5)
    weight, C, B, V, scale = inputs(line, torch.float32)
    C, B = C.detach().to(dtype), B.detach().to(dtype)
    V = V.detach().to(dtype).float().requires_grad_()
    y = chimera.mix(line, weight, C, B, V.to(dtype), scale)
    (first,) = torch.autograd.grad(y.float().pow(2).sum(), V, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), V)
    expected = 2 * _squared(line, weight, C.float(), B.float(), V, scale)
    tolerance = {"rtol": 1e-3, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 3e-2, "atol": 0.1}
    torch.testing.assert_close(second, expected, **tolerance)


def _squared(line, weight, C, B, V, scale):
    """``Lᵀ L 1`` for the linear map of V."""

    def apply(v):
        return chimera.mix(line, weight, C, B, v, scale)

    ones = torch.ones_like(V)
    _, found = torch.autograd.functional.vjp(apply, V, apply(ones))
    return found


def test_chunks_do_not_cross_paths():
    plan = chunk_plan(chimera.batch([chimera.Line(n) for n in (40, 1, 35)]), 32)
    assert plan.start.tolist() == [0, 32, 40, 41, 73]
    assert plan.stop.tolist() == [32, 40, 41, 73, 76]
    assert plan.first_chunk.tolist() == [0, 2, 3, 5]
    assert plan.part.tolist() == [0, 1, 2]
