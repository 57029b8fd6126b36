"""Layers use kernels where these run, and PyTorch where operators are traced or counted."""

import torch

from chimera_ssm.nn.kernel_support import can_use_kernels
from chimera_ssm.ops.custom_ops import as_operators


def test_kernels_are_for_cpu_floats_and_not_for_tools_that_count(engine):
    assert can_use_kernels(torch.zeros(1), None) == (engine == "kernels")
    assert not can_use_kernels(torch.zeros(1, device="meta"))
    with as_operators():
        assert not can_use_kernels(torch.zeros(1))
