"""Marks of parameters without weight decay."""

import chimera_ssm as chimera
from chimera_ssm.nn.weight_decay import no_weight_decay


def test_what_a_mixer_exempts_is_marked_and_nothing_else():
    block = chimera.Block(16, chimera.Chimera(16))
    no_weight_decay(block)
    marked = {id(p) for p in block.parameters() if getattr(p, "_no_weight_decay", False)}
    assert marked == {id(p) for p in block.mixer.undecayed_parameters()}
    assert marked
