"""`accelerate`: models of ``transformers`` with Mamba-2 layers, on the functions of this package.

``transformers`` computes these layers by module functions of fixed names, which it maps to kernels of its hub or of
``mamba_ssm``, for GPUs only. Its mapping takes no local function, so the layers of a model get a ``forward`` of their
own: that of their class, with these names bound to the functions of this package. Nothing outside the model changes.
"""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import dataclass, field
from functools import update_wrapper
from types import CellType, FunctionType, MethodType
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle

from chimera_ssm.mamba.drop_in import FUNCTIONS, SCAN
from chimera_ssm.mamba.norm import fused_norm, is_gated_norm
from chimera_ssm.mamba.packing import pass_on_sequences


@dataclass(frozen=True)
class Accelerated:
    """What `accelerate` replaced in a model.

    Attributes:
        model: the model.
        layers: names of its layers that were changed.
        functions: names of the functions that these layers called, and of those that they call now.
        hooks: handles of the hooks that pass packed sequences on to base models.
    """

    model: nn.Module = field(repr=False)
    layers: tuple[str, ...]
    functions: dict[str, str]
    hooks: list[RemovableHandle] = field(repr=False)

    def undo(self) -> None:
        """Give the layers the ``forward`` of their class back."""
        for name in self.layers:
            layer = self.model.get_submodule(name)
            for module in (layer, *_gated_norms(layer)):
                _set_forward(module, None)
        for hook in self.hooks:
            hook.remove()

    def __str__(self) -> str:
        kinds = Counter(type(self.model.get_submodule(name)).__name__ for name in self.layers)
        replaced = "".join(f"\n  {old} → {new}" for old, new in self.functions.items())
        return f"accelerated {', '.join(f'{n} × {kind}' for kind, n in kinds.items())}{replaced}"


def accelerate(model: nn.Module) -> Accelerated:
    """Let the Mamba-2 layers of a ``transformers`` model compute with the CPU kernels of this package.

    For Mamba2, Bamba, Zamba2, GraniteMoeHybrid, NemotronH, FalconH1 and other models with such layers: prefill,
    decoding and training, and packed sequences (``seq_idx``), which ``transformers`` refuses without ``mamba_ssm``. The
    model is changed in place; its parameters and other models stay as they are. Tensors on other devices are left to
    ``transformers``.

    Args:
        model: a model, or a part of one.

    Returns:
        A report, which tells what was replaced when printed; ``report.undo()`` restores the model.

    Example:
        >>> print(accelerate(AutoModelForCausalLM.from_pretrained(folder)))
        accelerated 24 × Mamba2Mixer
          mamba2_chunk_scan → chimera_ssm.mamba_chunk_scan_combined
          …
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"accelerate takes a model of transformers, found {type(model).__name__}")
    layers = {name: layer for name, layer in model.named_modules() if SCAN in _names_in(layer)}
    if not layers:
        raise ValueError(
            f"{type(model).__name__} has no Mamba-2 layers to accelerate: expected a model of transformers such as "
            "Mamba2, Bamba, Zamba2, GraniteMoeHybrid, NemotronH or FalconH1"
        )
    functions: dict[str, str] = {}
    for layer in layers.values():
        forward = type(layer).forward
        known = inspect.unwrap(forward).__globals__
        found = {name: (new, wrap) for name, (new, wrap) in FUNCTIONS.items() if name in _names_in(layer)}
        functions |= {name: new for name, (new, _) in found.items()}
        _set_forward(layer, _with_globals(forward, {name: wrap(known[name]) for name, (_, wrap) in found.items()}))
        for norm in _gated_norms(layer):
            _set_forward(norm, fused_norm(type(norm).forward))
            functions[type(norm).__name__] = "a fused norm"
    return Accelerated(model, tuple(layers), functions, pass_on_sequences(model))


def _gated_norms(layer: nn.Module) -> list[nn.Module]:
    return [module for module in layer.children() if is_gated_norm(module)]


def _names_in(layer: nn.Module) -> tuple[str, ...]:
    """Global names that the ``forward`` of a layer's class uses."""
    code = getattr(inspect.unwrap(type(layer).forward), "__code__", None)
    return () if code is None else code.co_names


def _set_forward(layer: nn.Module, function: Any) -> None:
    """Give a layer a ``forward`` of its own, or that of its class, within hooks of the package ``accelerate``."""
    if "_old_forward" in vars(layer):
        vars(layer)["_old_forward"] = MethodType(type(layer).forward if function is None else function, layer)
    elif function is None:
        vars(layer).pop("forward", None)
    else:
        vars(layer)["forward"] = MethodType(function, layer)


def _with_globals(function: Any, replaced: dict[str, Any]) -> Any:
    """A copy of a function, decorated as it is, that finds other values under some global names."""
    inner = getattr(function, "__wrapped__", None)
    values, cells = function.__globals__, function.__closure__
    if inner is None:
        # Without a name that leads torch.compile to the module, which has other values.
        values = {name: value for name, value in {**values, **replaced}.items() if name != "__name__"}
    else:
        copy = _with_globals(inner, replaced)
        cells = tuple(CellType(copy) if cell.cell_contents is inner else cell for cell in cells or ())
    code = function.__code__.replace()  # another object: torch.compile keeps compiled code by it, with its globals
    result = FunctionType(code, values, function.__name__, function.__defaults__, cells)
    result.__kwdefaults__ = function.__kwdefaults__
    return update_wrapper(result, function if inner is None else copy)
