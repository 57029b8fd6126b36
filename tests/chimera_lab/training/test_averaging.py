"""The average of weights, by hand."""

import pytest
import torch

from chimera_lab.training.averaging import averaged_copy, decay_at, update_average


def test_the_average_by_hand():
    model = torch.nn.Linear(1, 1, bias=False)
    average = averaged_copy(model)
    expected = average.weight.item()
    for step in range(20):
        with torch.no_grad():
            model.weight.fill_(step)
        decay = decay_at(0.9, step)
        assert decay == min(0.9, (1 + step) / (10 + step))
        update_average(average, model, decay)
        expected = decay * expected + (1 - decay) * step
    assert average.weight.item() == pytest.approx(expected, rel=1e-5)
    assert not average.weight.requires_grad
    assert decay_at(0.99996, 250_000) == 0.99996
