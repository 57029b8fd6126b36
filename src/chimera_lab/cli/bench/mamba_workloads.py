"""Workloads to measure: Mamba-2 by our kernels, and by the fallback of transformers in PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import chimera_ssm as chimera
from chimera_lab.cli.bench.workloads import Steps


@dataclass(frozen=True)
class MambaScan:
    """One scan of heads of 64 with N = 128 that returns the last state, as layers need it for generation.

    Attributes:
        ours: whether by `chimera_ssm.mamba_chunk_scan_combined`; otherwise by transformers.
        length: tokens.
        heads: H.
        groups: G.
    """

    ours: bool
    length: int
    heads: int
    groups: int = 1

    def build(self) -> Steps:
        import torch

        draw = torch.Generator().manual_seed(0)
        shapes = (self.length, self.heads, 64), (self.length, self.heads), *[(self.length, self.groups, 128)] * 2
        x, dt, B, C = (torch.randn(1, *shape, generator=draw).requires_grad_() for shape in shapes)
        A = (-1 - 15 * torch.rand(self.heads, generator=draw)).requires_grad_()
        bias = (torch.rand(self.heads, generator=draw) - 4).requires_grad_()
        D = torch.ones(self.heads, requires_grad=True)
        scan: Any = chimera.mamba_chunk_scan_combined if self.ours else _modeling().mamba2_chunk_scan
        options = {"D": D, "dt_bias": bias, "dt_softplus": True, "return_final_states": True}
        gradient: Any = (
            torch.randn(1, self.length, self.heads, 64, generator=draw),
            torch.randn(1, self.heads, 64, 128, generator=draw),
        )
        return Steps(lambda: scan(x, dt, A, B, C, 256, **options), [x, dt, A, B, C, D, bias], gradient)


@dataclass(frozen=True)
class MambaModel:
    """Loss of all tokens by a Mamba-2 of 130M parameters with random weights, accelerated or not."""

    ours: bool
    length: int

    def build(self) -> Steps:
        import torch

        model = mamba2_model(self.ours)
        ids = torch.randint(50_000, (1, self.length), generator=torch.Generator().manual_seed(0))

        def loss() -> Any:
            training = torch.is_grad_enabled()
            model.train(training)
            return model(ids, labels=ids, use_cache=not training).loss

        return Steps(loss, [*model.parameters()])


@dataclass(frozen=True)
class MambaStep:
    """One decoding step of the same model after a short prompt, batch 1."""

    ours: bool

    def build(self) -> Steps:
        import torch

        model = mamba2_model(self.ours).eval()
        ids = torch.randint(50_000, (1, 16), generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            cache = model(ids, use_cache=True).cache_params
        return Steps(lambda: model(ids[:, :1], cache_params=cache, use_cache=True).logits)


def mamba2_model(ours: bool, **sizes: Any) -> Any:
    """The architecture of mamba2-130m: 24 layers, 768 wide, 24 heads of 64, N = 128."""
    import torch
    from transformers import Mamba2Config, Mamba2ForCausalLM

    torch.manual_seed(0)
    base: dict[str, Any] = {
        "vocab_size": 50_288, "hidden_size": 768, "num_hidden_layers": 24, "num_heads": 24, "head_dim": 64,
        "state_size": 128, "n_groups": 1, "tie_word_embeddings": True,
    }  # fmt: skip
    config = Mamba2Config(**(base | sizes))
    _modeling()
    model = Mamba2ForCausalLM(config)
    if ours:
        chimera.accelerate(model)
    return model


def _modeling() -> Any:
    """The module of transformers, without its warning that it is slow."""
    from transformers.models.mamba2 import modeling_mamba2
    from transformers.utils import logging

    logging.set_verbosity_error()
    return modeling_mamba2
