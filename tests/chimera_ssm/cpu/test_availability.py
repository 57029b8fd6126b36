"""Where kernels run: on floats of the CPU, with Numba."""

import subprocess
import sys

import pytest
import torch

from chimera_ssm.cpu.availability import can_use_kernels, disable_kernels


@pytest.mark.slow
def test_without_numba_plain_pytorch_takes_over_and_says_so_once():
    code = (
        "import sys, logging; logging.basicConfig(); sys.modules['numba'] = None\n"
        "import torch, chimera_ssm as c\n"
        "for _ in range(3): c.mix(c.Line(5), torch.rand(1, 4), *torch.rand(3, 1, 5, 2))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stderr.count("numba is not installed") == 1


def test_kernels_take_cpu_floats_only():
    assert can_use_kernels(torch.zeros(1), torch.zeros(1, dtype=torch.float64))
    assert not can_use_kernels(torch.zeros(1, device="meta"))
    assert not can_use_kernels(torch.zeros(1, dtype=torch.bfloat16))


def test_kernels_are_left_out_within_plain_pytorch():
    assert can_use_kernels(torch.zeros(1))
    with disable_kernels():
        assert not can_use_kernels(torch.zeros(1))
    assert can_use_kernels(torch.zeros(1))
