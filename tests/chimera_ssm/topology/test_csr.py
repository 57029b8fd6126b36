"""Compressed sparse rows against lists."""

import numpy as np
import pytest

from chimera_ssm.topology.csr import csr, offsets, ranges


@pytest.mark.parametrize("count", [0, 1, 40])
def test_items_are_grouped_by_row_in_ascending_order(count):
    row = np.random.default_rng(0).integers(0, 7, count)
    begin, order = csr(row, 9)
    groups = [order[begin[r] : begin[r + 1]].tolist() for r in range(9)]
    assert groups == [[item for item in range(count) if row[item] == r] for r in range(9)]


def test_offsets_are_where_groups_begin_and_end():
    assert offsets(np.array([2, 0, 3])).tolist() == [0, 2, 2, 5]
    assert offsets(np.array([], int)).tolist() == [0]


def test_ranges_one_after_the_other():
    start, stop = np.array([3, 5, 0, 7]), np.array([6, 5, 2, 8])
    assert ranges(start, stop).tolist() == [3, 4, 5, 0, 1, 7]
