"""When Triton kernels run."""

import torch

from chimera_ssm.cpu.availability import disable_kernels
from chimera_ssm.gpu.availability import can_use_triton, is_interpreted


def test_tensors_on_a_cpu_need_the_interpreter():
    assert can_use_triton(torch.randn(2), None) is is_interpreted()


def test_kernels_take_tensors_of_32_and_16_bits_on_one_device():
    assert not can_use_triton(torch.randn(2, dtype=torch.float64))
    assert not can_use_triton(torch.randn(2), torch.zeros(2, device="meta"))
    with disable_kernels():
        assert not can_use_triton(torch.randn(2))
