"""Every Triton kernel is compiled for three GPUs, none of which has to be there."""

import pytest

pytest.importorskip("triton")

from chimera_lab.planning.kernels import CASES, launches_of_lines
from chimera_ssm.gpu.availability import is_interpreted
from chimera_ssm.gpu.resources import TARGETS, resources_of

pytestmark = pytest.mark.skipif(is_interpreted(), reason="the interpreter compiles nothing")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels_of_lines_fit_into_registers(case):
    forward, backward = launches_of_lines(case)
    kernels = {launch.kernel: launch for launch in forward + backward}
    assert len(kernels) == 6
    for launch in kernels.values():
        needs = {target: resources_of(launch, target) for target in TARGETS}
        assert all(0 < n.registers <= 512 and n.shared <= 163 * 1024 for n in needs.values())
        assert needs["sm80"].stack == 0, launch.kernel


def test_few_launches():
    forward, backward = launches_of_lines(CASES[0])
    assert len(forward) <= 8
    assert len(backward) <= 14
