"""A lower bound of the memory that a run needs, computed before it is allocated."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from chimera_lab.training.recipe import Recipe, RuntimeConfig
from chimera_lab.training.task import Task

_FLOAT = 4  # bytes


def check_memory(task: Task, recipe: Recipe, runtime: RuntimeConfig, samples: int, train: bool = True) -> None:
    """Refuse a run that exceeds the available memory.

    The bound counts the weights (in training on a CPU also gradients, the two moments of AdamW and the average) and, on
    a CPU, the hidden states of ``samples``: of all layers in training, for the backward pass, otherwise of one.

    Args:
        task: determines the size of a sample.
        recipe: determines the model.
        runtime: the hardware.
        samples: samples per device and forward pass.
        train: whether the model is trained.
    """
    layers: int | None = getattr(recipe, "num_hidden_layers", None)
    if layers is None:
        return  # the recipe fine-tunes an existing model
    on_cpu = runtime.accelerator == "cpu" or not torch.accelerator.is_available()
    copies = (4 if train and on_cpu else 1) + bool(recipe.ema)
    head = task.num_outputs() * getattr(recipe, "hidden_size", 1)
    _refuse_beyond_memory(copies * head, f"the last layer of a model with {task.num_outputs():,} classes or labels")
    parameters, largest = _parameters(task, recipe, layers)
    _refuse_beyond_memory(
        copies * parameters, f"a model with {parameters:,} parameters, of which {largest} is the largest tensor"
    )
    states = samples * task.numbers_per_sample() * (layers if train else 1) if on_cpu else 0
    _refuse_beyond_memory(
        copies * parameters + states,
        f"a model with {parameters:,} parameters and the hidden states of {samples} samples",
    )


def _refuse_beyond_memory(numbers: int, what: str) -> None:
    needed, available = _FLOAT * numbers, available_memory()
    if needed > available:
        raise ValueError(
            f"{what} would take at least {_gibibytes(needed)} of memory, and {_gibibytes(available)} are available: "
            f"make it smaller"
        )


def available_memory() -> int:
    """Bytes that can still be allocated, within the limit of the container."""
    return min(_limits(), default=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _limits() -> Iterator[int]:
    with suppress(OSError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        yield from (1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # cgroups, version 2 and 1
        with suppress(OSError, ValueError):
            yield int(Path("/sys/fs/cgroup", name).read_text(encoding="ascii"))


def _parameters(task: Task, recipe: Recipe, layers: int) -> tuple[int, str]:
    """The number of parameters of the model, and its largest tensor; all layers have equal size."""
    one, two = (_without_memory(task, replace(recipe, **{"num_hidden_layers": few})) for few in (1, 2))
    first, second = (sum(parameter.numel() for parameter in model.parameters()) for model in (one, two))
    name, largest = max(two.named_parameters(), key=lambda item: item[1].numel())
    return first + (second - first) * (layers - 1), f"{name}, {' × '.join(f'{size:,}' for size in largest.shape)}"


def _without_memory(task: Task, recipe: Recipe) -> nn.Module:
    try:
        with torch.device("meta"):
            return task.build_model(recipe)
    except RuntimeError as error:
        if "Storage size calculation overflowed" not in str(error):
            raise
        raise ValueError(
            f"a tensor of the model would take more than {_gibibytes(2**63)} of memory ({error}), and "
            f"{_gibibytes(available_memory())} are available: make it smaller"
        ) from None


def _gibibytes(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
