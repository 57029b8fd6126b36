"""Every Triton kernel is compiled for three GPUs, none of which has to be there."""

import pytest

pytest.importorskip("triton")

from chimera_lab.planning.kernels import CASES, GRAPHS, GRIDS, LINES, launches_of, launches_of_graphs, name_of
from chimera_ssm.gpu.availability import is_interpreted
from chimera_ssm.gpu.resources import TARGETS, resources_of

pytestmark = pytest.mark.skipif(is_interpreted(), reason="the interpreter compiles nothing")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels_fit_into_registers(case):
    forward, backward = launches_of(case)
    kernels = {name_of(launch): launch for launch in forward + backward}
    assert len(kernels) == (5 if case.shape and max(case.shape) <= 16 else 6)  # with stored products, one less
    for launch in kernels.values():
        check_resources(launch)


@pytest.mark.parametrize("nodes", GRAPHS)
def test_the_inverse_fits_into_registers(nodes):
    (launch,) = launches_of_graphs(nodes)
    check_resources(launch)


def check_resources(launch):
    needs = {target: resources_of(launch, target) for target in TARGETS}
    assert all(0 < n.registers <= 512 and n.shared <= 163 * 1024 for n in needs.values())
    assert needs["sm80"].stack == 0, launch.kernel


def test_few_launches():
    for case, most in ((LINES[0], (8, 14)), (GRIDS[0], (12, 20))):
        forward, backward = launches_of(case)
        assert len(forward) <= most[0]
        assert len(backward) <= most[1]
