"""Kinds of data: what they do with their steps, and which they share."""

import pytest

import chimera_ssm as chimera


@pytest.mark.parametrize(
    ("sharing", "sets"),
    [("none", (0, 1, 2, 3)), ("complete", (0,) * 4), ("row", (0, 0, 1, 1)), ("diagonal", (0, 1, 1, 0))],
)
def test_sharing(sharing, sets):
    assert chimera.OnGrid(sharing=sharing).sets == sets
