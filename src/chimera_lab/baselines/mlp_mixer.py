"""MLP-Mixer: a fixed matrix along the nodes, and one along the features."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from chimera_lab.baselines.sequence import SequenceMixer
from chimera_ssm.nn import RMSNorm


class MLPMixer(SequenceMixer):
    """A layer of MLP-Mixer as one mixer (Tolstikhin et al. 2021).

        s = W₂ gelu(W₁ x + b₁) along the nodes        out = s + W₄ gelu(W₃ norm(x + s)) along the features

    Node ``t`` has row and column ``t`` of the matrices, so that a sequence may be shorter than them, but not longer.

    Args:
        dim: features of a node.
        max_length: maximal number of nodes of a sequence.
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
            raise ValueError(f"MLPMixer was built for at most {most} nodes, found {T}: increase max_length")
        padded = F.pad(x.mT, (0, most - T))
        s = self.back_to_nodes(F.gelu(self.along_nodes(padded)))[..., :T].mT
        return s + self.out_proj(F.gelu(self.along_features(self.norm(x + s))))
