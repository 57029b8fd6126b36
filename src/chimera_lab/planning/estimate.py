"""Estimate seconds, bytes, hours and dollars from counted work and a device's data sheet."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from chimera_lab.planning.count import StepCounts, Target, count, layers_of
from chimera_lab.planning.hardware import NETWORK, Hardware
from chimera_lab.planning.synthetic_data import task_without_data
from chimera_lab.training.compilation import compiles
from chimera_lab.training.loaders import train_and_evaluation
from chimera_lab.training.recipe import Recipe, RuntimeConfig
from chimera_lab.training.schedule import DeviceShare, StepSchedule
from chimera_ssm.gpu.availability import triton_is_installed

_HALF = {"bf16": torch.bfloat16, "16": torch.float16}


@dataclass(frozen=True)
class Estimate:
    """What a run takes.

    Attributes:
        recipe: the recipe.
        machine: devices on each node, nodes, strategy, precision.
        device: the GPU.
        parameters: parameters of the model.
        steps: optimiser steps of the run.
        micro: samples that a device processes at once.
        accumulate: micro-batches of a device in a step.
        counts: work of a device for one micro-batch.
        compiled: whether training compiles the model.
        memory: bytes on a device, by purpose.
        seconds: seconds of a step, by purpose.
    """

    recipe: Recipe
    machine: RuntimeConfig
    device: Hardware
    parameters: int
    steps: int
    micro: int
    accumulate: int
    counts: StepCounts
    compiled: bool
    memory: dict[str, float]
    seconds: dict[str, float]

    @property
    def devices(self) -> int:
        """Number of devices on all nodes."""
        return (self.machine.devices or 1) * self.machine.nodes

    @property
    def has_kernels(self) -> bool:
        """Whether all mixes, if there are any, are counted as Triton kernels compute them."""
        return triton_is_installed() and (self.counts.mix_seconds > 0 or self.counts.mix_flops == 0)

    @property
    def flops(self) -> float:
        """FLOPs of a step on all devices: matrix products and mixes."""
        return (self.counts.matmul_flops + self.counts.mix_flops) * self.accumulate * self.devices

    @property
    def hours(self) -> float:
        """Hours of all steps; evaluation, data loading and interruptions are not counted."""
        return self.steps * sum(self.seconds.values()) / 3600

    @property
    def dollars(self) -> float:
        """Price of all devices for the whole run."""
        return self.hours * self.devices * self.device.price

    @property
    def link(self) -> float:
        """Bytes/s of a ring through all devices, in one direction."""
        return _slowest_link(self.machine, self.device)

    @property
    def fits(self) -> bool:
        """Whether the memory of a device suffices."""
        return sum(self.memory.values()) <= self.device.memory

    @property
    def fitting(self) -> int:
        """The largest micro-batch that divides a device's samples and fits into its memory; 0 if none does."""
        whole, per_batch = self.micro * self.accumulate, self.memory["activations"] + self.memory["working space"]
        available = self.device.memory - (sum(self.memory.values()) - per_batch)
        divisors = (m for m in range(1, whole + 1) if whole % m == 0)
        return max((m for m in divisors if m * per_batch / self.micro <= available), default=0)


def estimate(recipe: Recipe, machine: RuntimeConfig, device: Hardware) -> Estimate:
    """Count a recipe's work, and estimate its time and memory on the devices of ``machine``."""
    layers_of(recipe)  # refuses recipes that build no model, before their data are read
    task = task_without_data(recipe)
    samples, _, _ = train_and_evaluation(task, recipe)
    steps = StepSchedule.of(recipe, len(samples)).total
    devices = (machine.devices or 1) * machine.nodes
    accumulate = DeviceShare.of(recipe, 0, devices).accumulate
    micro = recipe.batch_size // devices // accumulate
    target = Target(device, _HALF.get(machine.precision), compiles(recipe, machine))
    counts = count(recipe, task, micro, target)
    with torch.device("meta"):
        parameters = sum(p.numel() for p in task.build_model(recipe).parameters())
    seconds = {name: accumulate * s for name, s in passes(counts, device).items()}
    seconds |= {
        "optimiser": _optimiser_bytes(recipe, machine, parameters) / (device.bandwidth_efficiency * device.bandwidth)
    }
    if devices > 1:
        seconds["gradients between devices"] = _sent_bytes(machine, parameters) / _slowest_link(machine, device)
    memory = _memory(recipe, machine, parameters, counts)
    return Estimate(
        recipe, machine, device, parameters, steps, micro, accumulate, counts, target.compiled, memory, seconds
    )


def passes(counts: StepCounts, device: Hardware) -> dict[str, float]:
    """Seconds of a forward and a backward pass: matrix products, memory traffic of other operations, and launches."""
    products = (
        counts.half_flops / device.half_rate + counts.single_flops / device.single_rate
    ) / device.matmul_efficiency
    traffic = counts.bytes_moved / (device.bandwidth_efficiency * device.bandwidth)
    waiting = max(0.0, counts.operations * device.launch_seconds - products - traffic)
    parts = {"matrix products": products, "mixes": counts.mix_seconds, "other operations": traffic}
    return parts | {"waiting for launches": waiting}


def _sharers(machine: RuntimeConfig) -> int:
    """Devices that share one set of weights."""
    return (machine.devices or 1) * machine.nodes if machine.strategy == "fsdp" else 1


def _memory(recipe: Recipe, machine: RuntimeConfig, parameters: int, counts: StepCounts) -> dict[str, float]:
    """Weights, both momenta of AdamW and the weight average, if any, in 32 bits, and the tensors of a step.

    Working space is assumed to be twice the largest tensor: an operation reads one and writes another.
    """
    copies = 3 + bool(recipe.ema)
    memory = {"weights and optimiser": 4.0 * copies * parameters / _sharers(machine)}
    if machine.strategy == "fsdp":
        memory["weights gathered"] = 4.0 * parameters
    return (
        memory
        | {"gradients": 4.0 * parameters, "activations": counts.activation_bytes}
        | {"working space": 2 * counts.largest_bytes}
    )


def _optimiser_bytes(recipe: Recipe, machine: RuntimeConfig, parameters: int) -> float:
    """Per parameter, AdamW reads four numbers and writes three; clipping and averaging access three each."""
    numbers = 7 + 3 * bool(recipe.clip) + 3 * bool(recipe.ema)
    return 4.0 * numbers * parameters / _sharers(machine)


def _sent_bytes(machine: RuntimeConfig, parameters: int) -> float:
    """A ring sends each gradient almost twice; FSDP gathers the weights in both passes as well."""
    devices = (machine.devices or 1) * machine.nodes
    return (3 if machine.strategy == "fsdp" else 2) * 4.0 * parameters * (devices - 1) / devices


def _slowest_link(machine: RuntimeConfig, device: Hardware) -> float:
    return device.link if machine.nodes == 1 else min(device.link, NETWORK)
