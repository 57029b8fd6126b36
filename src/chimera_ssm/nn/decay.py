"""Which parameters weight decay leaves alone."""

from torch import nn


def mark_undecayed(model: nn.Module) -> None:
    """Set ``_no_weight_decay`` on what any module of the model names in its ``undecayed_parameters()``.

    Optimisers exempt marked parameters and those with one dimension: biases, norms. Marks belong to the parameter
    objects, so that a model whose parameters were replaced must be marked again.
    """
    for module in model.modules():
        if hasattr(module, "undecayed_parameters"):
            for parameter in module.undecayed_parameters():  # ty: ignore[call-non-callable]
                parameter._no_weight_decay = True
