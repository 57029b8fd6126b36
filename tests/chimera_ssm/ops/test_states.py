"""States into and out of lines: values and every gradient against the dense truth, and chunks against the whole."""

import pytest
import torch
from torch.autograd import gradgradcheck

import chimera_ssm as chimera
from chimera_ssm.cpu import threads
from chimera_ssm.ops.reference import reference_mask
from chimera_ssm.ops.scan import cpu_line
from tests import zoo
from tests.chimera_ssm.ops.comparison import DTYPES, G, H, N, P, Z, assert_close, inputs

LINES = {
    "one node": chimera.Line(1),
    "line": chimera.Line(23),
    "long line": chimera.Line(150),
    "reversed": chimera.Line(130, reverse=True),
    "packed": chimera.batch([chimera.Line(n) for n in (90, 1, 64, 17)]),
    "packed reversed": chimera.batch([chimera.Line(5), chimera.Line(70, reverse=True)]),
    "packed, one part": chimera.batch([chimera.Line(20)]),
}
ON_LINES = pytest.mark.parametrize("topology", LINES.values(), ids=LINES)


def entering(topology, dtype, width=N, channels=P):
    """A state, to be differentiated."""
    parts = (topology.num_parts,) if isinstance(topology, chimera.Batch) else ()
    draw = torch.Generator().manual_seed(3)
    state = torch.randn(Z, *parts, H, width, channels, generator=draw, dtype=torch.float64)
    return state.to(dtype).requires_grad_()


def truth(topology, weight, C, B, V, scale, state):
    """``h = L (B̄ ⊗ v + state at first nodes)`` with dense L, all states in memory: y, and h at last nodes."""
    C, B = (x.repeat_interleave(V.shape[1] // x.shape[1], dim=1) for x in (C, B))
    rhs = scale[..., None, None] * B.unsqueeze(-1) * V.unsqueeze(-2)
    batched = isinstance(topology, chimera.Batch)
    state = state.transpose(1, 2) if batched else state.unsqueeze(2)
    source, target = topology.edge_index
    nodes = torch.arange(topology.num_nodes)
    first, last = (nodes[~torch.isin(nodes, x)] for x in (target, source))
    rhs = rhs.index_add(2, first, state)
    h = torch.einsum("zhij,zhjnp->zhinp", reference_mask(topology, weight), rhs)
    leaving = h[:, :, last]
    return torch.einsum("zhin,zhinp->zhip", C, h), leaving.transpose(1, 2) if batched else leaving.squeeze(2)


def assert_same(topology, arguments, state):
    """Values and gradients of both results."""
    everything = [*arguments, state]
    references = [x.detach().double().requires_grad_() for x in everything]
    found = chimera.mix(topology, *arguments, initial_state=state, return_state=True)
    expected = truth(topology, *references)
    draw = torch.Generator().manual_seed(2)
    grads = [torch.randn(x.shape, generator=draw, dtype=torch.float64) for x in expected]
    for x, y in zip(found, expected, strict=True):
        assert_close(x, y, state.dtype)
    dtyped = [g.to(state.dtype) for g in grads]
    found = torch.autograd.grad(found, everything, dtyped, allow_unused=True)
    expected = torch.autograd.grad(expected, references, grads)
    for x, y in zip(found, expected, strict=True):
        assert_close(torch.zeros_like(y) if x is None else x, y, state.dtype)


@DTYPES
@ON_LINES
def test_states_and_gradients(topology, engine, dtype):
    assert_same(topology, inputs(topology, dtype), entering(topology, dtype))


@pytest.mark.parametrize(("width", "channels"), [(37, 21), (16, 150), (260, 21)])
@pytest.mark.parametrize("name", ["long line", "packed", "packed reversed"])
def test_many_states_and_channels(name, width, channels, monkeypatch):
    """More channels than one task has, more states than a bundle; several threads."""
    monkeypatch.setattr(threads, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(cpu_line, "_BUNDLE", 3 * 16 * 48)
    topology = LINES[name]
    arguments = inputs(topology, torch.float64, width, channels)
    assert_same(topology, arguments, entering(topology, torch.float64, width, channels))


@ON_LINES
def test_weights_zero_and_negative(topology, engine):
    weight, *others = inputs(topology, torch.float64)
    draw = torch.Generator().manual_seed(4)
    weight = (torch.randint(-1, 2, weight.shape, generator=draw).double() * 0.9).requires_grad_()
    assert_same(topology, [weight, *others], entering(topology, torch.float64))


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_chunks_equal_the_whole(size, engine):
    T = 2050 if size > 7 else 150
    draw = torch.Generator().manual_seed(0)
    a = torch.rand(2, T, generator=draw)
    C, B = (torch.randn(1, T, 16, generator=draw) for _ in range(2))
    V, scale = torch.randn(2, T, 8, generator=draw), torch.rand(2, T, generator=draw)
    whole, last = chimera.mix(chimera.Line(T), a[:, 1:], C, B, V, scale, return_state=True)
    pieces, state = [], None
    for start in range(0, T, size):
        end = min(start + size, T)
        part = slice(start, end)
        if state is not None:
            state = a[:, start, None, None] * state
        y, state = chimera.mix(
            chimera.Line(end - start), a[:, start + 1 : end], C[:, part], B[:, part], V[:, part], scale[:, part],
            initial_state=state, return_state=True,
        )  # fmt: skip
        pieces.append(y)
    scale = whole.abs().max()
    assert (torch.cat(pieces, 1) - whole).abs().max() < 1e-5 * scale
    assert (state - last).abs().max() < 1e-5 * last.abs().max()


def test_packed_lines_equal_separate_ones(engine):
    packed = LINES["packed"]
    weight, C, B, V, scale = inputs(packed, torch.float64)
    states = entering(packed, torch.float64)
    y, leaving = chimera.mix(packed, weight, C, B, V, scale, initial_state=states, return_state=True)
    sizes = packed.part_sizes.tolist()
    edges = weight.split([n - 1 for n in sizes], -1)
    nodes = zip(*(x.split(sizes, 2) for x in (C, B, V, scale)), strict=True)
    for k, (w, (c, b, v, s), out) in enumerate(zip(edges, nodes, y.split(sizes, 2), strict=True)):
        line = chimera.Line(sizes[k])
        alone = chimera.mix(line, w, c, b, v, s, initial_state=states[:, k], return_state=True)
        torch.testing.assert_close((out, leaving[:, k]), alone)


def test_without_an_initial_state_it_is_zero(engine):
    line = chimera.Line(30)
    arguments = inputs(line, torch.float64)
    y, state = chimera.mix(line, *arguments, return_state=True)
    zero = torch.zeros_like(state)
    torch.testing.assert_close(y, chimera.mix(line, *arguments))
    torch.testing.assert_close((y, state), chimera.mix(line, *arguments, initial_state=zero, return_state=True))
    assert isinstance(chimera.mix(line, *arguments, initial_state=zero), torch.Tensor)


def test_dimensions_broadcast_and_half_precision_has_states_in_float32():
    packed = chimera.batch([chimera.Line(3), chimera.Line(4)])
    draw = torch.Generator().manual_seed(0)
    weight, V = torch.rand(5, 1, H, 5, generator=draw), torch.randn(2, H, 7, P, generator=draw)
    C, B = (torch.randn(G, 7, N, generator=draw) for _ in range(2))
    state = torch.randn(2, H, N, P, generator=draw)
    y, leaving = chimera.mix(packed, weight, C, B, V, initial_state=state, return_state=True)
    assert (y.shape, leaving.shape) == ((5, 2, H, 7, P), (5, 2, 2, H, N, P))
    one = chimera.mix(packed, weight[3, 0], C, B, V[1], initial_state=state, return_state=True)
    torch.testing.assert_close((y[3, 1], leaving[3, 1]), one)
    half = [x.bfloat16() for x in (weight, C, B, V)]
    y, leaving = chimera.mix(packed, *half, return_state=True)
    assert (y.dtype, leaving.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize("name", ["one node", "line", "packed"])
def test_second_derivatives(name):
    topology = LINES[name]
    arguments = [x[:1, :, :20] if x.dim() == 4 else x[:1] for x in inputs(topology, torch.float64)]
    if topology.num_nodes > 20:
        topology = chimera.batch([chimera.Line(3), chimera.Line(2)]) if name == "packed" else chimera.Line(5)
        arguments = [x[:1] for x in inputs(topology, torch.float64)]
    arguments = [x.detach().requires_grad_() for x in (*arguments, entering(topology, torch.float64)[:1])]

    def mix(*given):
        return chimera.mix(topology, *given[:-1], initial_state=given[-1], return_state=True)

    assert gradgradcheck(mix, arguments, fast_mode=True)


@pytest.mark.parametrize("spoiled", ["weight", "C", "B", "V", "scale", "state"])
def test_a_part_does_not_notice_what_is_not_finite_in_another(spoiled, engine):
    packed = chimera.batch([chimera.Line(4), chimera.Line(70), chimera.Line(3)])
    given = dict(zip(("weight", "C", "B", "V", "scale"), inputs(packed, torch.float64), strict=True))
    given["state"] = entering(packed, torch.float64)
    given = {name: x.detach().clone() for name, x in given.items()}
    place = {"weight": (..., 10), "C": (..., 10, slice(None)), "B": (..., 10, slice(None)),
             "V": (..., 10, slice(None)), "scale": (..., 10), "state": (slice(None), 1)}[spoiled]  # fmt: skip
    given[spoiled][place] = torch.nan
    *arguments, state = given.values()
    y, leaving = chimera.mix(packed, *arguments, initial_state=state, return_state=True)
    assert y[:, :, :4].isfinite().all()
    assert y[:, :, 74:].isfinite().all()
    assert leaving[:, [0, 2]].isfinite().all()


@pytest.mark.parametrize(
    "topology", [chimera.UndirectedLine(5), chimera.GridDAG((1, 5)), zoo.random_tree(5), chimera.Graph(5, [[0], [1]])]
)
def test_other_topologies_have_no_such_state(topology):
    with pytest.raises(chimera.TopologyError, match="need a directed Line or a batch of them, found"):
        chimera.mix(topology, *inputs(topology, torch.float32), return_state=True)


def test_errors_say_what_to_do():
    line, two = chimera.Line(5), chimera.UndirectedLine(5).dags()
    weight, C, B, V, _ = inputs(line, torch.float32)
    with pytest.raises(chimera.TopologyError, match="a state enters and leaves one topology, found 2"):
        chimera.mix(two, [weight] * 2, [C] * 2, [B] * 2, V, return_state=True)
    with pytest.raises(ValueError, match="truncates the series: leave the solver out"):
        chimera.mix(line, weight, C, B, V, solver=chimera.Neumann(2), return_state=True)
    with pytest.raises(ValueError, match=r"initial_state must have shape \[..., H, N, P\] = \[..., 4, 3, 5\]"):
        chimera.mix(line, weight, C, B, V, initial_state=torch.zeros(4, 5, 3))
    packed = chimera.batch([line, line])
    with pytest.raises(ValueError, match=r"\[..., num_parts, H, N, P\] = \[..., 2, 4, 3, 5\] on Batch"):
        chimera.mix(packed, *inputs(packed, torch.float32), initial_state=torch.zeros(4, 3, 5))
    with pytest.raises(ValueError, match=r"must broadcast to each other, found .* scale \[2\], initial_state \[5\]"):
        chimera.mix(line, *inputs(line, torch.float32), initial_state=torch.zeros(5, 4, 3, 5))
    with pytest.raises(ValueError, match="initial_state must be a floating point tensor, found int"):
        chimera.mix(line, weight, C, B, V, initial_state=0)
