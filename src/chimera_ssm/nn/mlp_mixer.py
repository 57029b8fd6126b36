"""MLP-Mixer, a baseline: a fixed matrix along the nodes, and one along the features."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_ssm.nn.norm import RMSNorm
from chimera_ssm.nn.sequence import SequenceMixer


class MLPMixer(SequenceMixer):
    """A layer of MLP-Mixer as one mixer (Tolstikhin et al. 2021).

        s = W₂ gelu(W₁ x + b₁) along the nodes        out = s + W₄ gelu(W₃ norm(x + s)) along the features

    Node ``t`` always has row and column ``t`` of the matrices: a sequence may be shorter than they are, not longer.

    Args:
        dim: features of a node.
        max_length: most nodes of a sequence.
        expand: half the width of the inner layers, in units of the outer.

    Shapes: ``x [..., T, dim]`` → ``[..., T, dim]``, T ≤ max_length.
    """

    def __init__(self, dim: int, max_length: int, expand: int = 2):
        super().__init__()
        self.along_nodes = nn.Linear(max_length, 2 * expand * max_length)
        self.back_to_nodes = nn.Linear(2 * expand * max_length, max_length, bias=False)
        self.norm = RMSNorm(dim)
        self.along_features = nn.Linear(dim, 2 * expand * dim)
        self.out_proj = nn.Linear(2 * expand * dim, dim, bias=False)

    def mix(self, x: Tensor) -> Tensor:
        T, most = x.shape[1], self.along_nodes.in_features
        if most < T:
            raise ValueError(f"MLPMixer was made for at most {most} nodes, found {T}: set max_length")
        padded = F.pad(x.mT, (0, most - T))
        s = self.back_to_nodes(F.gelu(self.along_nodes(padded)))[..., :T].mT
        return s + self.out_proj(F.gelu(self.along_features(self.norm(x + s))))


class BlockDiagonal(nn.Module):
    """A linear layer whose matrix is a row of blocks on the diagonal, ``[..., blocks · i]`` → ``[..., blocks · o]``.

    Args:
        inputs: features in.
        outputs: features out.
        blocks: how many; divides both.
    """

    def __init__(self, inputs: int, outputs: int, blocks: int):
        super().__init__()
        if inputs % blocks or outputs % blocks:
            raise ValueError(f"{inputs} and {outputs} features cannot be cut into {blocks} blocks; use multiples of it")
        self.weight = nn.Parameter(torch.empty(blocks, inputs // blocks, outputs // blocks))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within ±1/√(inputs of a block), as in `nn.Linear`."""
        bound = self.weight.shape[1] ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """Each block by itself."""
        return torch.einsum("...bi,bio->...bo", x.unflatten(-1, (self.weight.shape[0], -1)), self.weight).flatten(-2)
