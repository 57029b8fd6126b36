"""What makes training faster on GPUs: the compiler, and products in TF32."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from chimera_lab.training.recipe import Recipe, RuntimeConfig

#: Kinds of data whose batches have the same topology at every step; others would be compiled again and again.
KINDS = ("image", "text", "causal")
#: The compiler that `torch.compile` uses.
BACKEND = "inductor"


def compiles(recipe: Recipe, runtime: RuntimeConfig) -> bool:
    """Whether training compiles the model, see the setting ``compile``."""
    if runtime.compile != "auto":
        return runtime.compile == "yes"
    return _on_cuda(runtime) and recipe.kind in KINDS and runtime.strategy != "fsdp"


def prepare(model: nn.Module, recipe: Recipe, runtime: RuntimeConfig) -> None:
    """Compile a model except for its head, in place, if `compiles`; and allow TF32 in mixed precision on GPUs.

    Names of weights stay. Sizes are fixed: for batches of another size the model is compiled once more.
    """
    if compiles(recipe, runtime):
        base: Any = model.base_model
        base.compile(backend=BACKEND, dynamic=False)
    if runtime.precision != "32" and _on_cuda(runtime):
        torch.set_float32_matmul_precision("high")


def _on_cuda(runtime: RuntimeConfig) -> bool:
    return runtime.accelerator == "gpu" or (runtime.accelerator == "auto" and torch.cuda.is_available())
