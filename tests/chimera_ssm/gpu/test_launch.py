"""Recorded launches."""

import pytest

pytest.importorskip("triton")

from chimera_ssm.gpu.launch import launch, recorded_launches


def test_launches_are_listed_instead_of_made():
    def kernel():
        raise AssertionError

    with recorded_launches() as launches:
        launch(kernel, (2, 3), 1, 2, Q=16)
        launch(kernel, (0, 3), 1, 2, Q=16)  # an empty grid
    assert launches == [(kernel, (2, 3), (1, 2), {"Q": 16})]
