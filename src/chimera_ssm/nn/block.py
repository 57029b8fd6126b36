"""The residual block around a mixer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from chimera_ssm.nn.norm import RMSNorm
from chimera_ssm.nn.norm_torch import EPS
from chimera_ssm.topology import Topology


class DropPath(nn.Module):
    """Drops the residual branch of a sample with a given probability in training, and scales up the others.

    A sample is an entry of the leading dimensions and a part of the topology: in a packed batch, a graph.

    Args:
        probability: probability of dropping a branch.
    """

    def __init__(self, probability: float = 0.0):
        super().__init__()
        if not 0 <= probability < 1:
            raise ValueError(f"the probability of dropping a path must be from 0 to below 1, found {probability}")
        self.probability = probability

    def extra_repr(self) -> str:
        """The probability, for ``print``."""
        return f"{self.probability}"

    def forward(self, x: Tensor, topology: Topology | None = None) -> Tensor:
        """``[..., T, dim]`` → the same; without a topology, all T belong to one sample."""
        if not self.training or self.probability == 0:
            return x
        keep = 1 - self.probability
        parts = 1 if topology is None else topology.num_parts
        scale = torch.empty(*x.shape[:-2], parts, 1, dtype=x.dtype, device=x.device).bernoulli_(keep) / keep
        if topology is not None and parts > 1:
            scale = scale.index_select(-2, topology.tensors("part", x.device))
        return x * scale


class Block(nn.Module):
    """A pre-norm residual block, ``x + drop(mixer(norm(x)))``, around any mixer.

    Args:
        dim: features of a node.
        mixer: called as ``mixer(x, topology, edge_attr, node_mask)``, and with ``state`` and ``return_state``, see
            `Chimera`, if the block is.
        drop_path: probability of dropping the branch of a sample.
        eps: added to the mean square in the norm.

    Shapes: those of the mixer.
    """

    def __init__(self, dim: int, mixer: nn.Module, drop_path: float = 0.0, eps: float = EPS):
        super().__init__()
        self.norm = RMSNorm(dim, eps)
        self.mixer = mixer
        self.drop_path = DropPath(drop_path)

    def forward(
        self,
        x: Tensor,
        topology: Topology,
        edge_attr: Tensor | None = None,
        node_mask: Tensor | None = None,
        state: Any = None,
        return_state: bool = False,
    ) -> Any:
        """``[..., T, dim]`` → ``[..., T, dim]``; with ``return_state``, a pair of that and the mixer's state."""
        u = self.norm(x)
        if u.dtype.itemsize > self.norm.weight.dtype.itemsize:  # features in float32, weights in half precision
            u = u.to(self.norm.weight.dtype)
        if state is None and not return_state:
            return x + self.drop_path(self.mixer(u, topology, edge_attr, node_mask), topology)
        y, state = self.mixer(u, topology, edge_attr, node_mask, state, return_state=True)
        y = x + self.drop_path(y, topology)
        return (y, state) if return_state else y
