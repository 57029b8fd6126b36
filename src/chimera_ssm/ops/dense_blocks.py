"""Dense storage: unions as blocks, one for each part, padded to the largest."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import pad

from chimera_ssm.topology.plans import BlockPlan


def dense_blocks(plan: BlockPlan, weight: Tensor) -> Tensor:
    """A itself: edge weights ``[G, E]`` → ``[G, blocks, S, S]``."""
    blocks, side = plan.shape
    flat = weight.new_zeros(weight.shape[0], blocks * side * side)
    return flat.index_copy(1, plan.entry, weight).view(-1, blocks, side, side)


def split(plan: BlockPlan, x: Tensor) -> Tensor:
    """Rows of nodes ``[..., T, K]`` → rows of blocks ``[..., blocks, S, K]``, zeros in the padding."""
    rows = x if plan.trivial else pad(x, (0, 0, 0, 1)).index_select(-2, plan.node)
    return rows.unflatten(-2, plan.shape)


def join(plan: BlockPlan, x: Tensor) -> Tensor:
    """The reverse of `split`."""
    rows = x.flatten(-3, -2)
    return rows if plan.trivial else rows.index_select(-2, plan.place)
