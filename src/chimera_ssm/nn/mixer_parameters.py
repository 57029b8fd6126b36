"""The parameters of a mixer: sizes, initial values, and the projections of features to V, B, C and step sizes."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_ssm.adjacency import Adjacency, inverse_softplus
from chimera_ssm.nn.kinds import Kind, OnGraph
from chimera_ssm.nn.mixer_checks import check_choice, check_is_kind, check_limits, check_sizes
from chimera_ssm.nn.norm import HeadNorm
from chimera_ssm.nn.norm_torch import EPS
from chimera_ssm.nn.split_columns import split_columns
from chimera_ssm.nn.weight_decay import no_weight_decay
from chimera_ssm.ops import Solver
from chimera_ssm.topology import Topology

RESOLVENTS = ("exact", "identity")
#: Range of the initial decays, that of Mamba-2.
DECAYS = (1.0, 16.0)
INITS = ("average", "paper")


class MixerParameters(nn.Module):
    """The parameters of `Chimera`, which documents the arguments."""

    def __init__(
        self,
        dim: int,
        num_heads: int | None = None,
        state_size: int = 64,
        expand: int = 2,
        groups: int = 1,
        gate: bool = True,
        edge_dim: int | None = None,
        kind: Kind | None = None,
        conv: bool = True,
        resolvent: str = "exact",
        init: str = "average",
        solver: Solver | None = None,
        dt_min: float = 0.001,
        dt_max: float = 0.1,
        dt_limit: tuple[float, float] | None = None,
        bias: bool = False,
        eps: float = EPS,
    ):
        super().__init__()
        self.dim, self.width, self.state_size = dim, expand * dim, state_size
        self.num_heads = max(1, self.width // 64) if num_heads is None else num_heads
        self.groups, self.kind, self.solver = groups, OnGraph() if kind is None else kind, solver
        self.edge_dim, self.resolvent, self.init, self.dt_range = edge_dim, resolvent, init, (dt_min, dt_max)
        self.dt_limit = dt_limit
        check_is_kind(self.kind)
        check_choice("resolvent", resolvent, RESOLVENTS)
        check_choice("init", init, INITS)
        check_limits(dt_limit)
        check_sizes(self.width, self.num_heads, groups, edge_dim, self.kind)

        H, S, J = self.num_heads, self.kind.num_steps, self.kind.num_injections
        self.num_sets = max(self.kind.sets) + 1
        channels = self.width + 2 * self.num_sets * groups * state_size
        self.splits = [self.width if gate else 0, channels, H * S, H * J]
        self.in_proj = nn.Linear(dim, sum(self.splits), bias=bias)
        self.conv = self.kind.conv(channels) if conv else None
        if self.conv is not None and init == "average":
            # C · B starts near one: silu(bias)² = 1 / N.
            self.conv.constant_from, self.conv.constant = self.width, _inverse_silu(state_size**-0.5)
        shared_bias = getattr(self.kind, "shared_bias", False)
        self.step_bias = nn.Parameter(torch.empty(H, 1 if shared_bias else S))
        self.edge_proj = None if edge_dim is None else nn.Linear(edge_dim, H, bias=False)
        self.edge_bias = None if edge_dim is None or shared_bias else nn.Parameter(torch.empty(H))
        #: Logarithm of each head's decay; called a bias so that transformers' Trainer exempts it from weight decay.
        self.decay_bias = nn.Parameter(torch.empty(H)) if self.kind.learn_decay else None
        self.norm = HeadNorm(H, self.width, eps)
        self.out_proj = nn.Linear(self.width, dim, bias=bias)
        no_weight_decay(self)
        self.reset_parameters()

    def undecayed_parameters(self) -> list[nn.Parameter]:
        """Parameters exempt from weight decay: step biases, decays and D."""
        return [p for p in (self.step_bias, self.edge_bias, self.decay_bias, self.norm.D) if p is not None]

    def reset_parameters(self) -> None:
        """Steps log-uniform in [dt_min, dt_max], decays uniform in [1, 16]; submodules by their own methods."""
        for module in (self.in_proj, self.conv, self.norm, self.out_proj, self.edge_proj):
            if module is not None:
                module.reset_parameters()
        self.reset_own_parameters()

    def reset_own_parameters(self) -> None:
        """The step biases and decays: the parameters that do not belong to a submodule."""
        low, high = map(math.log, self.dt_range)
        uniform = _stratified if self.init == "average" else torch.rand_like
        scales = self.step_bias.new_tensor(self.kind.step_scales[: self.step_bias.shape[1]])
        with torch.no_grad():
            for bias, scale in ((self.step_bias, scales), (self.edge_bias, self.kind.edge_step_scale)):
                if bias is not None:
                    steps = torch.exp(low + (high - low) * uniform(bias))
                    bias.copy_(inverse_softplus(steps * scale))
            if self.decay_bias is not None:
                low, high = DECAYS
                self.decay_bias.copy_((low + (high - low) * uniform(self.decay_bias)).log())

    def extra_repr(self) -> str:
        """Sizes, for ``print``."""
        return f"{self.dim}, num_heads={self.num_heads}, state_size={self.state_size}, kind={self.kind}"

    def _projected(self, x: Tensor, node_mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """z, inputs of the convolution, steps and injections of ``x [Z, T, dim]``, which is zero at masked nodes."""
        z, features, steps, injections = split_columns(self.in_proj(x), self.splits)
        if node_mask is not None and self.in_proj.bias is not None:
            features = features.masked_fill(~node_mask.unsqueeze(-1), 0)
        return z, features, self._steps(steps), self._injections(injections)

    def _convolved(
        self, features: Tensor, topology: Topology, node_mask: Tensor | None, **edge_weights: Tensor
    ) -> Tensor:
        """Convolved and activated features ``[Z, T, channels]``; zero at masked nodes."""
        conv = self.conv
        features = F.silu(features) if conv is None else conv(features, topology, activate=True, **edge_weights)
        return features if node_mask is None else features.masked_fill(~node_mask.unsqueeze(-1), 0)

    def _outputs(self, y: Tensor, V: Tensor, z: Tensor, node_mask: Tensor | None) -> Tensor:
        """Norm and output projection of mixed features ``[Z, H, T, P]``; zero at masked nodes."""
        y = self.out_proj(self.norm(y, V, z if z.shape[-1] else None).to(z.dtype))
        if node_mask is None or self.out_proj.bias is None:
            return y
        return y.masked_fill(~node_mask.unsqueeze(-1), 0)

    def _heads(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``V [Z, H, T, P]``, ``B, C [Z, sets, G, T, N]`` of convolved features ``[Z, T, channels]``."""
        BC = self.num_sets * self.groups * self.state_size
        V, B, C = split_columns(features, [self.width, BC, BC])
        V = V.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        B, C = (t.unflatten(-1, (self.num_sets, self.groups, self.state_size)).movedim(1, 3) for t in (B, C))
        return V, B, C

    def _steps(self, projected: Tensor) -> Tensor:
        """Step sizes ``[Z, H, S, T]``, in float32 at least, of projections ``[Z, T, H·S]``."""
        # Rows of the projection are far apart in memory: copied as rows, then transposed within the cache.
        steps = projected.contiguous().mT.contiguous().unflatten(1, (self.num_heads, -1))
        steps = F.softplus(_at_least_float32(steps) + self.step_bias.unsqueeze(-1))
        return steps if self.dt_limit is None else steps.clamp(*self.dt_limit)

    def _terms(
        self,
        topology: Topology,
        steps: Tensor,
        edge_steps: Tensor | None,
        node_mask: Tensor | None,
        injections: Tensor | None,
        **edge_weights: Tensor,
    ) -> list[tuple[Topology, Adjacency]]:
        """The terms of the mixer's sum, see `Kind.terms`."""
        learned = {} if self.decay_bias is None else {"decay": _at_least_float32(self.decay_bias).exp()}
        return self.kind.terms(topology, steps, edge_steps, node_mask, injections, **learned, **edge_weights)

    def _injections(self, projected: Tensor) -> Tensor | None:
        """Signed injections ``[Z, H, J, T]``, in float32 at least, of projections ``[Z, T, H·J]``."""
        if not self.kind.num_injections:
            return None
        return _at_least_float32(projected.unflatten(-1, (self.num_heads, -1)).movedim(1, 3))

    def _edge_steps(self, edge_attr: Tensor | None, lead: tuple[int, ...]) -> Tensor | None:
        """Step sizes of edges, ``[Z, H, E]``."""
        if self.edge_proj is None or edge_attr is None:
            return None
        steps, bias = self.edge_proj(edge_attr).mT, self.step_bias[:, 0] if self.edge_bias is None else self.edge_bias
        steps = F.softplus(_at_least_float32(steps) + bias.unsqueeze(-1)).expand(*lead, -1, -1)
        return steps.reshape(math.prod(lead), *steps.shape[-2:])  # −1 would be ambiguous without edges


def _stratified(like: Tensor) -> Tensor:
    """Random numbers in [0, 1], one near the middle of each of H intervals of equal size, in random order.

    With few heads, independent draws would sometimes miss short or long steps altogether.
    """
    return (torch.rand_like(like).argsort(dim=0) + 0.4 + 0.2 * torch.rand_like(like)) / len(like)


def _inverse_silu(y: float) -> float:
    """The x > 0 with ``silu(x) = y``, for y > 0, by Newton's method."""
    x = y
    for _ in range(50):
        s = 1 / (1 + math.exp(-x))
        x -= (x * s - y) / (s + x * s * (1 - s))
    return x


def _at_least_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
