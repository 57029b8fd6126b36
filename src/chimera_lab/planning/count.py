"""Count the work of a training step by running a small one, with few layers and few samples.

Every layer costs the same, and so does every sample: the counts of many are extrapolated from those of one and two.
Where Triton kernels compute all mixes on the GPU, mixes are not run, but counted kernel by kernel; and the model
without its head is counted as compiled, if training compiles it. Otherwise steps run in plain PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import astuple, dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from chimera_lab.data.random import seeded
from chimera_lab.planning.fusion import GraphCounts, Traced
from chimera_lab.planning.hardware import Hardware
from chimera_lab.planning.mixes import MixCall
from chimera_lab.planning.traffic import FORMULAS, Traffic
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.settings import as_dict, from_dict
from chimera_lab.training.task import Task
from chimera_ssm.cpu.availability import disable_kernels
from chimera_ssm.gpu.availability import assume_gpu, triton_is_installed
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
        mix_seconds: estimated for mixes on Triton kernels, which are then not part of the counts above; else 0.
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
    mix_seconds: float = 0.0

    def __add__(self, other: StepCounts) -> StepCounts:
        return StepCounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, factor: float) -> StepCounts:
        return StepCounts(*(factor * a for a in astuple(self)))

    def __sub__(self, other: StepCounts) -> StepCounts:
        return self + other * -1


@dataclass(frozen=True)
class Target:
    """Where a step would run.

    Attributes:
        device: the GPU.
        half: dtype of autocast; ``None`` for 32 bits.
        compiled: whether training compiles the model.
    """

    device: Hardware
    half: torch.dtype | None = None
    compiled: bool = False


def count(recipe: Recipe, task: Task, samples: int, target: Target | None = None) -> StepCounts:
    """The counts of one micro-batch, extrapolated from steps with one and two layers and one and two samples.

    Graphs differ in size, so their counts cannot be extrapolated: the whole micro-batch is run.

    Args:
        recipe: the recipe, whose ``num_hidden_layers`` is the number of layers.
        task: its task, with real or synthetic data.
        samples: size of the micro-batch.
        target: where it would run; in plain PyTorch and 32 bits if omitted.
    """

    def with_layers(layers: int) -> StepCounts:
        if recipe.kind == "graph":
            return count_step(recipe, task, layers, samples, target, samples)
        one, two = (count_step(recipe, task, layers, few, target, samples) for few in (1, 2))
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


def count_step(
    recipe: Recipe, task: Task, layers: int, samples: int, target: Target | None = None, micro: int | None = None
) -> StepCounts:
    """Count the work of a forward and a backward pass with ``layers`` layers and ``samples`` samples.

    Args:
        recipe: the recipe.
        task: its task.
        layers: of the model.
        samples: of the batch.
        target: where it would run; in plain PyTorch and 32 bits if omitted.
        micro: the micro-batch of ``target``: a step has the share of its samples in the time of its mixes.
    """
    flops = FlopCounterMode(display=False, custom_mapping=_FORMULAS)
    with as_operators(), flops:
        SmallStep(recipe, task, layers, samples)()
    by_operator = flops.get_flop_counts()["Global"]
    mix_flops = sum(n for operator, n in by_operator.items() if operator in FLOP_FORMULAS)
    of_step = flops.get_total_flops() - mix_flops, mix_flops
    step = SmallStep(recipe, task, layers, samples, None if target is None else target.half)
    if target is not None and triton_is_installed():
        work = count_with_kernels(step, target.compiled)
        seconds = seconds_of_mixes(work.mixes or [], micro or samples, samples, target)
        if seconds is not None:
            return _counts(of_step, work, seconds)
        step = SmallStep(recipe, task, layers, samples, target.half)
    with disable_kernels(), Traffic() as traffic:
        step(traffic.end_of_forward)
    return _counts(of_step, traffic, 0.0)


def count_with_kernels(step: SmallStep, compiled: bool) -> Traffic:
    """Counts of a step whose mixes are not run but listed, with its model compiled or not, except for the head."""
    traffic, graphs = Traffic([]), GraphCounts()
    with assume_gpu(), as_operators():
        if compiled:
            step.model.base_model.forward = Traced(step.model.base_model.forward, graphs)
            step()
        with traffic:
            step(traffic.end_of_forward)
    graphs.add_to(traffic)
    return traffic


def seconds_of_mixes(calls: list[MixCall], micro: int, samples: int, target: Target) -> float | None:
    """The share that ``samples`` have in the seconds of mixes of a micro-batch; ``None`` if one has no kernels."""
    from chimera_lab.planning.roofline import mix_seconds  # Triton is optional

    precision = "highest" if target.half is None else "high"
    total = 0.0
    for call in calls:
        seconds = mix_seconds(call, micro, samples, target.device, precision)
        if seconds is None:
            return None
        total += seconds * samples / micro
    return total


def _counts(flops: tuple[float, float], work: Traffic, mix_seconds: float) -> StepCounts:
    return StepCounts(
        matmul_flops=flops[0],
        mix_flops=flops[1],
        half_flops=work.half_flops,
        single_flops=work.single_flops,
        bytes_moved=work.bytes_moved,
        operations=work.operations,
        activation_bytes=work.activation_bytes,
        largest_bytes=work.largest_bytes,
        mix_seconds=mix_seconds,
    )


class SmallStep:
    """A forward and a backward pass of the recipe's model with ``layers`` layers, on its first samples.

    A call runs both passes; its argument, if there is one, is called between them.
    """

    def __init__(self, recipe: Recipe, task: Task, layers: int, samples: int, half: torch.dtype | None = None):
        self.task, self.half = task, half
        with seeded(0, "plan"):
            self.model: Any = task.build_model(from_dict(type(recipe), as_dict(recipe) | {"num_hidden_layers": layers}))
            data = task.train_samples()
            self.batch = data.collate([data.sample(index) for index in range(samples)])
        self.model.train()

    def __call__(self, between: Callable[[], None] = lambda: None) -> None:
        autocast = nullcontext() if self.half is None else torch.autocast("cpu", self.half)
        with sdpa_kernel(_ATTENTION), seeded(0, "step"):
            with autocast:
                loss = self.task.step(self.model, self.batch).loss
            between()
            loss.backward()
        self.model.zero_grad()
