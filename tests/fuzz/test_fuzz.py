"""The first random cases; ``make fuzz`` runs ten thousand."""

import pytest

from tests.fuzz.check import draw, failures

SEEDS = pytest.mark.parametrize("first", range(0, 240, 20))


def wrong(first, others):
    """Failures of twenty cases, of the usual family or of the others."""
    lines = []
    for seed in range(first, first + 20):
        case = draw(seed)
        if (case.family != "usual") == others:
            lines += [f"seed {seed}, {case}: {line}" for line in failures(case, threads=1 + seed % 2)]
    return lines


@SEEDS
def test_random_cases_agree_with_the_dense_truth(first):
    assert not wrong(first, others=False)


@SEEDS
def test_random_cases_without_edges_columns_or_dominance_agree(first):
    assert not wrong(first, others=True)
