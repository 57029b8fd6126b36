"""The first random cases; ``make fuzz`` runs ten thousand."""

import pytest
import torch

from tests.fuzz.check import draw, failures


@pytest.mark.parametrize("first", range(0, 400, 20))
def test_random_cases_agree_with_the_dense_truth(first):
    wrong = []
    for seed in range(first, first + 20):
        torch.set_num_threads(1 + seed % 2)
        case = draw(seed)
        wrong += [f"seed {seed}, {case}: {line}" for line in failures(case)]
    torch.set_num_threads(1)
    assert not wrong, "\n".join(wrong)
