"""Unions as dense blocks: each part in its own, zeros elsewhere."""

import pytest
import torch

from chimera_ssm.ops.dense_blocks import dense_blocks, join, split
from chimera_ssm.ops.reference import reference_matrix
from tests import zoo


@pytest.mark.parametrize("plan", ["block_plan", "sorted_block_plan"])
@pytest.mark.parametrize("name", ["line 63", "lines", "grid dags", "dag 63"])
def test_blocks_multiply_as_the_whole_matrix(name, plan):
    topology = zoo.ZOO[name]
    weight, x = zoo.bounded_weights(topology, 2), torch.randn(2, topology.num_nodes, 3, dtype=torch.float64)
    plan = topology.tensors(plan, x.device)
    rows = split(plan, x)
    assert rows.shape == (2, len(topology.parts), max(part.num_nodes for part in topology.parts), 3)
    assert torch.equal(join(plan, rows), x)
    torch.testing.assert_close(join(plan, dense_blocks(plan, weight) @ rows), reference_matrix(topology, weight) @ x)
