"""One thread for each test worker, because the tests are many and small; and what tests share."""

from contextlib import nullcontext

import pytest
import torch

from chimera_ssm.cpu.availability import disable_kernels

torch.set_num_threads(1)


@pytest.fixture(params=["kernels", "plain"])
def engine(request):
    """A test that asks for it runs twice: on compiled kernels where there are any, and in plain PyTorch."""
    with disable_kernels() if request.param == "plain" else nullcontext():
        yield request.param
