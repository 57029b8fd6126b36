"""Count the work of a training step by running a small one, with few layers and few samples.

Every layer costs the same, and so does every sample: the counts of many are extrapolated from those of one and two.
Steps run in plain PyTorch, as on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import astuple, dataclass

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from chimera_lab.data.random import seeded
from chimera_lab.planning.traffic import FORMULAS, Traffic
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.settings import as_dict, from_dict
from chimera_lab.training.task import Task
from chimera_ssm.cpu.availability import disable_kernels
from chimera_ssm.ops.custom_ops import as_operators
from chimera_ssm.ops.flops import FLOP_FORMULAS

_FORMULAS = FLOP_FORMULAS | FORMULAS
#: Flash attention, as on a GPU; as matrix products where PyTorch does not have it on CPUs.
_ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]


@dataclass(frozen=True)
class StepCounts:
    """The work of a device in a forward and a backward pass, without the optimiser.

    Attributes:
        matmul_flops: FLOPs of matrix products outside mixes.
        mix_flops: FLOPs of mixes, by the formulas of the solvers.
        half_flops: FLOPs of all matrix products of plain PyTorch in 16 bits, including those inside mixes.
        single_flops: the same in 32 bits or more.
        bytes_moved: bytes that all other operations read and write.
        operations: number of operations.
        activation_bytes: bytes of tensors that the forward pass saves for the backward pass.
        largest_bytes: bytes of the largest tensor that is created.
    """

    matmul_flops: float
    mix_flops: float
    half_flops: float
    single_flops: float
    bytes_moved: float
    operations: float
    activation_bytes: float
    largest_bytes: float

    def __add__(self, other: StepCounts) -> StepCounts:
        return StepCounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, factor: float) -> StepCounts:
        return StepCounts(*(factor * a for a in astuple(self)))

    def __sub__(self, other: StepCounts) -> StepCounts:
        return self + other * -1


def count(recipe: Recipe, task: Task, samples: int, half: torch.dtype | None = None) -> StepCounts:
    """The counts of one micro-batch, extrapolated from steps with one and two layers and one and two samples.

    Graphs differ in size, so their counts cannot be extrapolated: the whole micro-batch is run.

    Args:
        recipe: the recipe, whose ``num_hidden_layers`` is the number of layers.
        task: its task, with real or synthetic data.
        samples: size of the micro-batch.
        half: dtype of autocast; ``None`` for 32 bits.
    """

    def with_layers(layers: int) -> StepCounts:
        if recipe.kind == "graph":
            return count_step(recipe, task, layers, samples, half)
        one, two = (count_step(recipe, task, layers, few, half) for few in (1, 2))
        return _extrapolate(one, two, samples)

    return _extrapolate(with_layers(1), with_layers(2), layers_of(recipe))


def layers_of(recipe: Recipe) -> int:
    """Layers of the model that a recipe builds."""
    layers = getattr(recipe, "num_hidden_layers", None)
    if layers is None:
        raise ValueError(
            f"a {recipe.kind} recipe fine-tunes an existing model, whose size it does not specify; plan the recipe "
            "that makes the model, such as text/c4"
        )
    return layers


def _extrapolate(one: StepCounts, two: StepCounts, at: int) -> StepCounts:
    """The value at ``at`` of the straight line through the values at 1 and 2."""
    return one + (two - one) * (at - 1)


def count_step(recipe: Recipe, task: Task, layers: int, samples: int, half: torch.dtype | None = None) -> StepCounts:
    """Count the work of a forward and a backward pass with ``layers`` layers and ``samples`` samples."""
    flops = FlopCounterMode(display=False, custom_mapping=_FORMULAS)
    with as_operators(), flops:
        small_step(recipe, task, layers, samples)()
    by_operator = flops.get_flop_counts()["Global"]
    mix_flops = sum(n for operator, n in by_operator.items() if operator in FLOP_FORMULAS)
    step = small_step(recipe, task, layers, samples, half)
    with disable_kernels(), Traffic() as traffic:
        step(traffic.end_of_forward)
    return StepCounts(
        matmul_flops=flops.get_total_flops() - mix_flops,
        mix_flops=mix_flops,
        half_flops=traffic.half_flops,
        single_flops=traffic.single_flops,
        bytes_moved=traffic.bytes_moved,
        operations=traffic.operations,
        activation_bytes=traffic.activation_bytes,
        largest_bytes=traffic.largest_bytes,
    )


def small_step(
    recipe: Recipe, task: Task, layers: int, samples: int, half: torch.dtype | None = None
) -> Callable[..., None]:
    """A forward and a backward pass of the recipe's model with ``layers`` layers, on its first samples.

    The returned function calls its argument, if there is one, between the two passes.
    """
    with seeded(0, "plan"):
        model = task.build_model(from_dict(type(recipe), as_dict(recipe) | {"num_hidden_layers": layers}))
        data = task.train_samples()
        batch = data.collate([data.sample(index) for index in range(samples)])
    model.train()

    def step(between: Callable[[], None] = lambda: None) -> None:
        autocast = nullcontext() if half is None else torch.autocast("cpu", half)
        with sdpa_kernel(_ATTENTION), seeded(0, "step"):
            with autocast:
                loss = task.step(model, batch).loss
            between()
            loss.backward()
        model.zero_grad()

    return step
