"""Which parameters are exempt from weight decay."""

from torch import nn


def no_weight_decay(model: nn.Module) -> None:
    """Set ``_no_weight_decay`` on the parameters that modules list in ``undecayed_parameters()``.

    Optimizers exempt marked parameters and those with one dimension: biases, norms. Marks belong to the parameter
    objects: a model whose parameters were replaced must be marked again.
    """
    for module in model.modules():
        if hasattr(module, "undecayed_parameters"):
            for parameter in module.undecayed_parameters():  # ty: ignore[call-non-callable]
                parameter._no_weight_decay = True
