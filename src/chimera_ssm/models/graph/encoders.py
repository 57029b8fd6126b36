"""Encoders of the features of nodes and edges, and of positions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from chimera_ssm.models.graph.configuration import ChimeraGraphConfig
from chimera_ssm.models.graph.norms import BatchNorm


class SummedEmbedding(nn.Embedding):
    """The sum of the embeddings of several integer features.

    Args:
        values: number of values of each feature.
        dim: size of the vector.

    Shapes: ``[n, features]``, from 0 to below ``values`` → ``[n, dim]``.
    """

    def __init__(self, values: Sequence[int], dim: int):
        super().__init__(sum(values), dim)
        self.count = len(values)
        self.starts = tuple(sum(values[:k]) for k in range(len(values)))

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input + torch.tensor(self.starts, device=input.device)).sum(1)


class FeatureEncoder(nn.Module):
    """Encodes features as a vector: a linear map of real features, a sum of embeddings of integer ones.

    Args:
        features: number of real features, or number of values of each integer feature.
        dim: size of the vector.

    Shapes: ``[n, features]`` → ``[n, dim]``.
    """

    def __init__(self, features: int | Sequence[int], dim: int):
        super().__init__()
        self.values = None if isinstance(features, int) else tuple(features)
        self.count = features if isinstance(features, int) else len(features)
        self.linear = nn.Linear(features, dim) if isinstance(features, int) else None
        self.embedding = None if isinstance(features, int) else SummedEmbedding(features, dim)

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Encode features; real ones are first converted to ``dtype``."""
        x = x.unsqueeze(1) if x.dim() == 1 else x
        if x.shape[1:] != (self.count,):
            raise ValueError(f"expected {self.count} features of each node or edge, found {list(x.shape[1:])}")
        if self.linear is not None:
            return self.linear(x.to(dtype))
        assert self.embedding is not None
        assert self.values is not None
        if torch.compiler.is_compiling():
            return self.embedding(x)
        # Values are checked on a CPU only: to look at them would be to wait for a GPU, which checks indices itself.
        if x.is_floating_point() or (x.device.type == "cpu" and self._is_outside(x)):
            raise ValueError(
                f"features must be integers from 0 to below {list(self.values)}, found {x.dtype}"
                + ("" if x.is_floating_point() or not len(x) else f" from {x.amin(0).tolist()} to {x.amax(0).tolist()}")
            )
        return self.embedding(x)

    def _is_outside(self, x: Tensor) -> bool:
        return bool((x < 0).any()) or bool((x >= torch.tensor(self.values)).any())


class PositionEncoder(nn.Module):
    """Encodes positions, ``linear(norm(positions))``; in training the signs of eigenvectors are random.

    Shapes: ``positions [T, position_features]``, ``batch [T]`` or ``None`` → ``[T, hidden_size]``.
    """

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        self.eigenvectors = config.eigenvectors
        self.norm = BatchNorm(config.position_features)
        self.encoder = FeatureEncoder(config.position_features, config.hidden_size)

    def forward(self, positions: Tensor, batch: Tensor | None, dtype: torch.dtype) -> Tensor:
        positions = positions.to(dtype)
        if self.training and self.eigenvectors and len(positions):
            graph = torch.zeros(len(positions), dtype=torch.long) if batch is None else batch
            sign = torch.ones(int(graph[-1]) + 1, positions.shape[1], dtype=dtype, device=positions.device)
            sign[:, -self.eigenvectors :] -= 2 * torch.randint_like(sign[:, -self.eigenvectors :], 2)
            positions = positions * sign[graph]
        return self.encoder(self.norm(positions), dtype)
