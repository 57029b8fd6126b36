"""A line that is continued from a state: chunks, padding, gradients, and what is refused."""

import pytest
import torch

import chimera_ssm as chimera

DIM = 16
KINDS = {
    "line": chimera.OnLine(),
    "step": chimera.OnLine(injection="step"),
    "projected": chimera.OnLine(injection="projected"),
    "mamba-2": chimera.OnLine(step="target", learn_decay=True, injection="step", width=3),
    "dag": chimera.OnDAG(),
    "graph": chimera.OnGraph(),
    "graph, columns": chimera.OnGraph(normalize="column"),
}
OF_KINDS = pytest.mark.parametrize("name", KINDS)


def build(name="mamba-2", **options):
    torch.manual_seed(0)
    mixer = chimera.Chimera(DIM, **{"num_heads": 4, "state_size": 6, "groups": 2, "kind": KINDS[name]} | options)
    with torch.no_grad():
        for p in mixer.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return mixer.double()


def in_chunks(mixer, x, size, node_mask=None, state=None):
    outputs = []
    for start in range(0, x.shape[-2], size):
        part = x[..., start : start + size, :]
        mask = None if node_mask is None else node_mask[..., start : start + size]
        y, state = mixer(part, chimera.Line(part.shape[-2]), None, mask, state, return_state=True)
        outputs.append(y)
    return torch.cat(outputs, dim=-2), state


@OF_KINDS
@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_chunks_give_the_result_of_the_whole_and_its_gradients(name, size):
    mixer, x = build(name), torch.randn(2, 3, 20, DIM, dtype=torch.float64, requires_grad=True)
    along = torch.randn_like(x)
    inputs = [x, *mixer.parameters()]
    whole = mixer(x, chimera.Line(20))
    found, _ = in_chunks(mixer, x, size)
    torch.testing.assert_close(found, whole)
    grads = (torch.autograd.grad((y * along).sum(), inputs) for y in (found, whole))
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("options", [{"conv": False}, {"bias": True}, {"resolvent": "identity"}, {"gate": False},
                                     {"dt_limit": (0.01, 0.05)}, {"eps": 1e-2}])  # fmt: skip
def test_options_of_the_mixer(options):
    mixer, x = build(**options), torch.randn(2, 11, DIM, dtype=torch.float64)
    torch.testing.assert_close(in_chunks(mixer, x, 4)[0], mixer(x, chimera.Line(11)))


@pytest.mark.parametrize("size", [7, 64, 1000])
def test_a_long_line_in_chunks_in_single_precision(size):
    mixer, x = build().float(), torch.randn(1, 1500, DIM)
    torch.testing.assert_close(in_chunks(mixer, x, size)[0], mixer(x, chimera.Line(1500)), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("size", [1, 5])
def test_states_stay_in_single_precision_under_autocast(size):
    mixer, x = build().float(), torch.randn(2, 10, DIM)
    whole, _ = in_chunks(mixer, x, 10)
    with torch.autocast("cpu", torch.bfloat16):
        _, exact = in_chunks(mixer, x, 10)
        found, state = in_chunks(mixer, x, size)
    assert state.hidden.dtype == torch.float32
    torch.testing.assert_close(state.hidden, exact.hidden, rtol=1e-4, atol=1e-5)
    assert (found.float() - whole).norm() < 0.02 * whole.norm()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("size", [1, 3, 20])
@OF_KINDS
def test_padding_is_skipped(name, size, bias):
    """Rows padded on the left and on the right, one of them entirely in its first chunks."""
    mixer, x = build(name, bias=bias), torch.randn(3, 12, DIM, dtype=torch.float64)
    bounds = [(0, 12), (7, 12), (2, 5)]
    mask = torch.tensor([[low <= t < high for t in range(12)] for low, high in bounds])
    found, state = in_chunks(mixer, x, size, mask)
    x_further = torch.randn(3, 4, DIM, dtype=torch.float64)
    continued, _ = mixer(x_further, chimera.Line(4), state=state, return_state=True)
    for row, (low, high) in enumerate(bounds):
        alone = torch.cat([x[row, low:high], x_further[row]])
        expected = mixer(alone, chimera.Line(len(alone)))
        torch.testing.assert_close(found[row, low:high], expected[:-4])
        torch.testing.assert_close(continued[row], expected[-4:])
        assert not found[row, :low].any()
        assert not found[row, high:].any()


@pytest.mark.parametrize("masked", [False, True])
@OF_KINDS
def test_packed_lines(name, masked):
    """Each part is continued from its own state, and so is a batch of the lines that were packed."""
    mixer, sizes = build(name), [3, 1, 5]
    first, second = (torch.randn(2, 9, DIM, dtype=torch.float64, requires_grad=True) for _ in range(2))
    mask = torch.rand(2, 9) < 0.7 if masked else None
    lines, reverse = (chimera.batch([chimera.Line(n) for n in order]) for order in (sizes, sizes[::-1]))
    _, state = mixer(first, lines, node_mask=mask, return_state=True)
    found, last = mixer(second, reverse, state=state, return_state=True)
    for z in range(2):
        parts = zip(first[z].split(sizes), second[z].split(sizes[::-1]), strict=True)
        masks = [slice(None)] * 3 if mask is None else mask[z].split(sizes)
        for k, (one, other) in enumerate(parts):
            alone = torch.cat([one[masks[k]], other])
            expected, end = mixer(alone, chimera.Line(len(alone)), return_state=True)
            torch.testing.assert_close(found[z].split(sizes[::-1])[k], expected[-len(other) :])
            torch.testing.assert_close(last.hidden[3 * z + k], end.hidden[0])
    rows, _ = mixer.step(second[:, :3].reshape(6, DIM), state)
    torch.testing.assert_close(rows[0], found[0, 0])
    assert all(x.abs().max() > 0 for x in torch.autograd.grad(found.sum(), (first, second)))


def test_padding_between_chunks_is_skipped():
    """A second part that is shorter in one row, padded on its left as chat templates do."""
    mixer = build("line")
    first, second = torch.randn(2, 2, 5, DIM, dtype=torch.float64)
    mask = torch.tensor([[True] * 5, [False, False, True, True, True]])
    _, state = mixer(first, chimera.Line(5), return_state=True)
    found = mixer(second, chimera.Line(5), node_mask=mask, state=state)
    alone = mixer(torch.cat([first[1], second[1, 2:]]), chimera.Line(8))
    torch.testing.assert_close(found[1, 2:], alone[5:])


def test_a_node_that_is_masked_inside_of_a_line():
    """It is skipped where states are passed on; without states it loses its edges."""
    mixer, x = build("line", conv=False), torch.randn(8, DIM, dtype=torch.float64)
    mask = torch.ones(8, dtype=torch.bool).index_fill(0, torch.tensor(3), False)
    found, _ = mixer(x, chimera.Line(8), node_mask=mask, return_state=True)
    torch.testing.assert_close(found[mask], mixer(x[mask], chimera.Line(7)))
    divided = mixer(x, chimera.Line(8), node_mask=mask)
    parts = mixer(x[:3], chimera.Line(3)), torch.zeros(1, DIM).double(), mixer(x[4:], chimera.Line(4))
    torch.testing.assert_close(divided, torch.cat(parts))


def test_the_state_is_a_dense_sum():
    """``Σ_j (Π_{j<k≤t} a_k) β_j B_j V_jᵀ`` in float64."""
    mixer, x = build(conv=False), torch.randn(9, DIM, dtype=torch.float64)
    _, state = mixer(x, chimera.Line(9), return_state=True)
    _, features, steps, _ = mixer._projected(x[None], None)
    V, B, _ = mixer._heads(torch.nn.functional.silu(features))
    delta, a = steps[0, :, 0], mixer.decay_bias.exp()
    for h in range(4):
        hidden = 0
        for t in range(9):
            hidden = torch.exp(-a[h] * delta[h, t]) * hidden + delta[h, t] * torch.outer(B[0, 0, h // 2, t], V[0, h, t])
        torch.testing.assert_close(state.hidden[0, h], hidden)


def test_select_takes_rows():
    mixer, x = build(), torch.randn(3, 5, DIM, dtype=torch.float64)
    mask = torch.ones(3, 5, dtype=torch.bool)
    _, state = mixer(x, chimera.Line(5), node_mask=mask, return_state=True)
    y = mixer(x, chimera.Line(5), state=state)
    rows = torch.tensor([2, 0, 2])
    torch.testing.assert_close(mixer(x[rows], chimera.Line(5), state=state.select(rows)), y[rows])


def test_other_topologies_have_no_state():
    x = torch.randn(4, DIM, dtype=torch.float64)
    for kind, topology in [(chimera.OnTwoLines(), chimera.UndirectedLine(4)), (chimera.OnGrid(), chimera.Grid((2, 2)))]:
        mixer = chimera.Chimera(DIM, 4, kind=kind).double()
        with pytest.raises(ValueError, match="only causal mixers have a recurrent form"):
            mixer(x, topology, return_state=True)
    lines = chimera.batch([chimera.Line(2), chimera.Line(2, reverse=True)])
    for topology in (chimera.Line(4, reverse=True), lines):
        with pytest.raises(chimera.TopologyError, match="enters the first node of a directed line and leaves the last"):
            build()(x, topology, return_state=True)


def test_a_state_of_another_size_is_refused():
    mixer, x = build(), torch.randn(2, 4, DIM, dtype=torch.float64)
    _, state = mixer(x, chimera.Line(4), return_state=True)
    with pytest.raises(ValueError, match=r"'hidden': \[1, 4, 6, 8\]}, found .*'hidden': \[2, 4, 6, 8\]"):
        mixer(x[0], chimera.Line(4), state=state)
    for options in ({"conv": False}, {"groups": 4}, {"kind": chimera.OnLine(width=5)}, {"kind": chimera.OnGraph()}):
        with pytest.raises(ValueError, match="state must be a MixerState that this mixer returned"):
            build(**options)(x, chimera.Line(4), state=state)
    with pytest.raises(ValueError, match="found tuple"):
        mixer(x, chimera.Line(4), state=(1, 2, 3))
