"""Parameters of a mixer: sizes and initial values."""

import pytest
import torch

import chimera_ssm as chimera


def test_defaults():
    mixer = chimera.Chimera(768)
    assert (mixer.num_heads, mixer.width, mixer.state_size) == (24, 1536, 64)
    assert chimera.Chimera(16).num_heads == 1
    delta, psi, delta_source = torch.nn.functional.softplus(mixer.step_bias).T
    for step in (delta, delta_source, psi / 100):
        assert 0.001 * 0.999 <= step.min() < step.max() <= 0.1 * 1.001
    grid = torch.nn.functional.softplus(chimera.Chimera(768, kind=chimera.OnGrid()).step_bias)
    assert 0.1 < grid.max() <= 0.7 * 1.001
    assert {id(p) for p in mixer.undecayed_parameters()} == {id(mixer.step_bias), id(mixer.norm.D)}


def test_without_a_gate_there_is_no_projection_for_one():
    with_gate, without = (chimera.Chimera(32, kind=chimera.OnLine(), gate=g) for g in (True, False))
    assert with_gate.in_proj.out_features - without.in_proj.out_features == 64


def test_on_the_meta_device():
    with torch.device("meta"):
        mixer = chimera.Chimera(64, kind=chimera.OnGrid())
    mixer = mixer.to_empty(device="cpu")
    mixer.reset_parameters()
    assert mixer(torch.randn(6, 64), chimera.Grid((2, 3))).isfinite().all()


@pytest.mark.parametrize("init", ["average", "paper"])
def test_decays_start_between_one_and_sixteen(init):
    mixer = chimera.Chimera(768, kind=chimera.OnLine(learn_decay=True), init=init)
    decays = mixer.decay_bias.exp()
    assert 1 <= decays.min() < 3 < 13 < decays.max() <= 16
    assert mixer.decay_bias._no_weight_decay
    assert chimera.Chimera(768, kind=chimera.OnLine()).decay_bias is None


def test_the_window_of_a_line():
    mixer = chimera.Chimera(32, kind=chimera.OnLine(width=2))
    assert mixer.conv.weight.shape[-1] == 2


def test_steps_are_clamped():
    mixer = chimera.Chimera(8, 2, kind=chimera.OnLine(), dt_limit=(0.02, 0.05))
    steps = mixer._steps(torch.linspace(-20, 20, 6).expand(1, 2, 6).mT)
    assert (steps.min().item(), steps.max().item()) == pytest.approx((0.02, 0.05))


def test_biases_do_not_reach_masked_nodes():
    mixer, line = chimera.Chimera(8, 2, bias=True), chimera.Line(4)
    torch.nn.init.normal_(mixer.in_proj.bias)
    torch.nn.init.normal_(mixer.out_proj.bias)
    x, mask = torch.randn(4, 8), torch.tensor([False, True, True, False])
    y = mixer(x, line, node_mask=mask)
    torch.testing.assert_close(y[1:3], mixer(x[1:3], chimera.Line(2)))
    assert not y[[0, 3]].any()
