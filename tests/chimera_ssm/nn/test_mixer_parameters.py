"""Parameters of a mixer: sizes and initial values."""

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
