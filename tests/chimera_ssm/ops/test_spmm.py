"""Products with A and substitution along edges, against dense matrices."""

import pytest
import torch

from chimera_ssm.ops import dispatch
from chimera_ssm.ops.reference import reference_mask, reference_matrix
from chimera_ssm.ops.spmm import cpu
from tests import zoo


def arguments(topology, columns, dtype):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, topology.num_nodes, columns, dtype=torch.float64, generator=generator)
    return zoo.bounded_weights(topology, 3, dtype=dtype), x.to(dtype)


def assert_close(found, expected):
    assert found.shape == expected.shape
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5 if found.dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("columns", [1, 16, 37])
@pytest.mark.parametrize("name", ["line 63", "dag 63", "directed graph with loops", "graphs", "no edges"])
def test_products(name, columns, dtype, engine):
    weight, x = arguments(zoo.ZOO[name], columns, dtype)
    found = dispatch.run("spmm", "spmm", zoo.ZOO[name], weight, x)
    assert_close(found, reference_matrix(zoo.ZOO[name], weight) @ x.double())


@pytest.mark.parametrize("columns", [1, 16, 37])
@pytest.mark.parametrize("name", ["line 100 reversed", "dag 63", "dag with isolated nodes", "grid dags"])
def test_substitution(name, columns):
    weight, rhs = arguments(zoo.ZOO[name], columns, torch.float64)
    assert_close(cpu.substitute(zoo.ZOO[name], weight, rhs), reference_mask(zoo.ZOO[name], weight) @ rhs)
