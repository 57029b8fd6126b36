"""Baseline mixers against slow truths: the recurrence of S4, the sums of Hyena."""

import math

import pytest
import torch
from torch.nn import functional as F

import chimera_ssm as chimera
from chimera_lab import baselines
from chimera_lab.baselines.sequence import long_convolution

DIM = 6
LENGTHS = [1, 2, 7, 16, 23]
MIXERS = {
    "s4": lambda: baselines.S4(DIM, state_size=4),
    "hyena": lambda: baselines.Hyena(DIM),
    "mlp": lambda: baselines.MLPMixer(DIM, max_length=23),
    "m2": lambda: baselines.M2(DIM, blocks=2),
}
ALL = pytest.mark.parametrize("name", MIXERS)


def build(name):
    torch.manual_seed(0)
    mixer = MIXERS[name]().double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return mixer


def features(*shape):
    return torch.randn(*shape, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def direct_convolution(x, kernel):
    T = x.shape[1]
    y = torch.zeros_like(x)
    for t in range(T):
        for s in range(T):
            y[:, t] = y[:, t] + kernel[:, T - 1 + t - s] * x[:, s]
    return y


@pytest.mark.parametrize("length", LENGTHS)
def test_long_convolution(length):
    x, kernel = features(2, length), torch.randn(DIM, 2 * length - 1, dtype=torch.float64)
    torch.testing.assert_close(long_convolution(x, kernel), direct_convolution(x, kernel))


def recurrence(mixer, u, direction):
    """S4's state, node by node: ``h ← exp(ΔA) h + (exp(ΔA) − 1)/A u``, ``y = 2 Re(C h)``."""
    A = torch.complex(-mixer.log_decay.exp(), mixer.frequency)
    decay = torch.exp(mixer.log_step.exp()[:, None] * A)
    C = torch.view_as_complex(mixer.C)[direction]
    hidden, outputs = torch.zeros(u.shape[0], *A.shape, dtype=A.dtype), []
    for t in range(u.shape[1]):
        hidden = decay * hidden + (decay - 1) / A * u[:, t, :, None]
        outputs.append(2 * (C * hidden).sum(-1).real)
    return torch.stack(outputs, dim=1)


def slow_s4(mixer, x):
    u, z = mixer.in_proj(x).chunk(2, dim=-1)
    ahead = recurrence(mixer, u.flip(1), direction=1).flip(1)
    y = recurrence(mixer, u, direction=0) + F.pad(ahead, (0, 0, 0, 1))[:, 1:] + mixer.D * u  # ahead, not here
    return mixer.out_proj(mixer.norm(y * F.silu(z)))


def slow_filter(filters, length):
    columns = []
    for offset in range(1 - length, length):
        t = offset / length
        angles = [2 * math.pi * f * t for f in range(1, filters.bands + 1)]
        phi = torch.tensor([t, *map(math.cos, angles), *map(math.sin, angles)], dtype=torch.float64)
        hidden = torch.sin(filters.second @ torch.sin(filters.first @ phi + filters.first_bias) + filters.second_bias)
        D = filters.last.shape[0]
        window = [0.01 ** (abs(t) / (1.5 - 1.2 * c / (D - 1))) for c in range(D)]
        columns.append(torch.tensor(window, dtype=torch.float64) * (filters.last @ hidden))
    return torch.stack(columns, dim=1)


def slow_hyena(mixer, x):
    short = F.conv1d(mixer.in_proj(x).mT, mixer.conv.weight[:, None], mixer.conv.bias, padding=1, groups=6 * DIM).mT
    q, k, v = short.chunk(3, dim=-1)
    u = k * v
    y = q * (direct_convolution(u, slow_filter(mixer.filter, x.shape[1])) + mixer.D * u)
    return mixer.out_proj(mixer.norm(y))


def slow_mlp(mixer, x):
    """Absent nodes are zeros: the matrices whole."""
    padded = F.pad(x, (0, 0, 0, 23 - x.shape[1]))
    s = mixer.back_to_nodes(F.gelu(mixer.along_nodes(padded.mT))).mT[:, : x.shape[1]]
    return s + mixer.out_proj(F.gelu(mixer.along_features(mixer.norm(x + s))))


def slow_m2(mixer, x):
    short = F.conv1d(mixer.in_proj(x).mT, mixer.conv.weight[:, None], mixer.conv.bias, padding=1, groups=3 * DIM).mT
    q, k, v = short.chunk(3, dim=-1)
    long = direct_convolution(k * v, slow_filter(mixer.filter, x.shape[1])) + mixer.D * k * v
    s = mixer.out_proj(q * long) + direct_convolution(x, slow_filter(mixer.residual_filter, x.shape[1]))
    gate, up, down = (torch.block_diag(*layer.weight) for layer in (mixer.gate, mixer.up, mixer.down))
    u = mixer.norm(x + s)
    return s + (F.gelu(u @ gate) * (u @ up)) @ down


SLOW = {"s4": slow_s4, "hyena": slow_hyena, "mlp": slow_mlp, "m2": slow_m2}


@ALL
@pytest.mark.parametrize("length", LENGTHS)
def test_values_and_gradients(name, length):
    mixer, x = build(name), features(2, length).requires_grad_()
    g = features(2, length).flip(0)
    values, gradients = [], []
    for y in (mixer(x, chimera.Line(length)), SLOW[name](mixer, x)):
        values.append(y)
        gradients.append(torch.autograd.grad(y, [x, *mixer.parameters()], g, allow_unused=length == 1))
    torch.testing.assert_close(*values)
    for label, fast, slow in zip(["x", *dict(mixer.named_parameters())], *gradients, strict=True):
        assert (fast is None) == (slow is None)
        if fast is not None:
            torch.testing.assert_close(fast, slow, msg=lambda m, label=label: f"{label}: {m}")


@ALL
def test_nodes_hear_all_others(name):
    mixer, x = build(name), features(1, 9).requires_grad_()
    y = mixer(x, chimera.Grid((3, 3)))
    for t in range(9):
        (influence,) = torch.autograd.grad(y[0, t].sum(), x, retain_graph=True)
        assert (influence.abs().amax(-1) > 0).all()


@ALL
def test_packed_leading_dimensions_and_topologies(name):
    mixer, x = build(name), features(2, 3, 12)
    grid, line = chimera.Grid((3, 4)), chimera.UndirectedLine(5)
    y = mixer(x, grid)
    torch.testing.assert_close(y[1, 2], mixer(x[1, 2], chimera.Line(12)))
    packed = mixer(torch.cat([x, x[..., :5, :]], dim=-2), chimera.batch([grid, line]))
    torch.testing.assert_close(packed, torch.cat([y, mixer(x[..., :5, :], line)], dim=-2))


@ALL
def test_absent_nodes_change_nothing(name):
    mixer, x = build(name), features(3, 7)
    mask = torch.tensor([[1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1], [1] * 7]).bool()
    y = mixer(x, chimera.Line(7), node_mask=mask)
    assert (y[~mask] == 0).all()
    for row in range(3):
        alone = x[row, mask[row]]
        torch.testing.assert_close(y[row, mask[row]], mixer(alone, chimera.Line(len(alone))))


@ALL
def test_in_a_block(name):
    block, x = chimera.Block(DIM, build(name)).double(), features(2, 4)
    torch.testing.assert_close(block(x, chimera.Line(4)), x + block.mixer(block.norm(x), chimera.Line(4)))


@ALL
@pytest.mark.parametrize("whole", [True, False])
def test_half_precision(name, whole):
    mixer, x = build(name).float(), 10 * features(2, 20).float()
    reference = mixer(x, chimera.Line(20))
    with torch.autocast("cpu", torch.bfloat16, enabled=not whole):
        y = (mixer.bfloat16() if whole else mixer)(x.bfloat16() if whole else x, chimera.Line(20))
    assert y.dtype == torch.bfloat16
    assert (y - reference).norm() < 0.1 * reference.norm()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: baselines.S4(4, state_size=3), "state_size must be even, found 3"),
        (lambda: baselines.M2(6), "6 and 24 features must be multiples of the number of blocks, 4"),
        (
            lambda: baselines.MLPMixer(6, 2)(features(3).float(), chimera.Line(3)),
            "at most 2 nodes, found 3: increase max_length",
        ),
        (lambda: build("hyena")(features(3), chimera.Line(3), torch.ones(2, 1)), "Hyena reads .* edge_attr"),
        (lambda: build("s4")(features(3), chimera.Line(4)), r"row for each node of Line\(4\), found \[3, 6\]"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
