"""Weights of other state space models against their definitions."""

import pytest
import torch

import chimera_ssm as chimera
from tests.chimera_ssm.adjacency.formulas import HEADS, acyclic, check_mask, node_steps, steps


def test_linear_attention_is_one_everywhere():
    grid = chimera.GridDAG((2, 3))
    weight, scale = chimera.linear_attention(grid, num_heads=3)
    assert torch.equal(weight, torch.ones(3, grid.num_edges))
    assert torch.equal(scale, torch.ones(3, grid.num_nodes))


def test_retnet_decays_by_head():
    decay = torch.tensor([[0.5, 0.9], [0.25, 0.75]], dtype=torch.float64)
    weight, scale = chimera.retnet(chimera.Line(4), decay)
    assert torch.equal(weight, torch.stack([decay] * 3, dim=-1))
    assert torch.equal(scale, torch.ones(2, 2, 4, dtype=torch.float64))


@pytest.mark.parametrize("line", [chimera.Line(5), chimera.Line(5, reverse=True)], ids=repr)
def test_mamba2_is_exp_of_the_targets_step(line):
    delta = node_steps(line)
    weight, scale = chimera.mamba2(line, delta)
    torch.testing.assert_close(weight, torch.exp(-delta[:, line.edge_index[1]]), rtol=1e-14, atol=0)
    assert torch.equal(scale, delta)


@pytest.mark.parametrize("learned", [False, True])
def test_mamba2_is_its_recurrence(learned):
    """Values and gradients, those of the decays included."""
    line, T = chimera.Line(6), 6
    delta, B, V, C = node_steps(line), steps(1, T, 3, seed=1), steps(HEADS, T, 2, seed=2), steps(1, T, 3, seed=3)
    decay = torch.linspace(0.5, 16, HEADS, dtype=torch.float64) if learned else None
    inputs = [x.requires_grad_() for x in (delta, B, V, C, decay) if x is not None]
    outputs, state = [], torch.zeros(HEADS, 3, 2, dtype=torch.float64)
    for t in range(T):
        step = delta[:, t, None, None]
        a = torch.exp(-step) if decay is None else torch.exp(-decay[:, None, None] * step)
        state = a * state + step * B[0, t, :, None] * V[:, t, None, :]
        outputs.append(torch.einsum("n,hnp->hp", C[0, t], state))
    expected = torch.stack(outputs, dim=1)
    weight, scale = chimera.mamba2(line, delta, decay)
    found = chimera.mix(line, weight, C, B, V, scale=scale)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    grads = [torch.autograd.grad((y**3).sum(), inputs) for y in (found, expected)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-14)


@acyclic
def test_masked_weights_of_other_models(topology):
    decay = torch.tensor([0.5, 0.9], dtype=torch.float64)
    delta = node_steps(topology)
    check_mask(topology, lambda t, nodes, edges, mask: chimera.retnet(t, decay, node_mask=mask))
    check_mask(topology, lambda t, nodes, edges, mask: chimera.linear_attention(t, HEADS, node_mask=mask))
    check_mask(topology, lambda t, nodes, edges, mask: chimera.mamba2(t, delta[:, nodes], node_mask=mask))


def test_linear_attention_is_on_the_device_of_its_topology():
    line = chimera.Line(4).to("meta")
    weight, scale = chimera.linear_attention(line, node_mask=torch.ones(4, dtype=torch.bool, device="meta"))
    assert weight.device == scale.device == line.device
