"""AdamW and its parameter groups."""

from __future__ import annotations

from torch import nn
from torch.optim import AdamW

from chimera_lab.training.recipe import Recipe


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Weight decay for matrices and filters; none for biases, norms and parameters marked ``_no_weight_decay``."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    plain = [p for p in parameters if p.ndim < 2 or getattr(p, "_no_weight_decay", False)]
    undecayed = {id(p) for p in plain}
    decayed = [p for p in parameters if id(p) not in undecayed]
    groups = {"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}
    return [group for group in groups if group["params"]]


def optimizer(model: nn.Module, recipe: Recipe) -> AdamW:
    """AdamW of a recipe; the learning rate is set at each step.

    PyTorch multiplies weights by ``1 − lr·decay``; decoupled, by ``1 − decay·lr/peak`` (Loshchilov and Hutter).
    """
    decay = recipe.weight_decay / recipe.lr if recipe.decoupled else recipe.weight_decay
    return AdamW(parameter_groups(model, decay), lr=recipe.lr, betas=recipe.betas)
