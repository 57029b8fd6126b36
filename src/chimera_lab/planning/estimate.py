"""From counted work and a device's figures to seconds, bytes, hours and dollars."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from chimera_lab.planning.count import Work, count, layers_of
from chimera_lab.planning.hardware import NETWORK, Hardware
from chimera_lab.planning.stand_ins import task_without_data
from chimera_lab.training.loaders import train_and_evaluation
from chimera_lab.training.recipe import Recipe, RuntimeConfig
from chimera_lab.training.schedule import DeviceShare, StepSchedule

_HALF = {"bf16": torch.bfloat16, "16": torch.float16}


@dataclass(frozen=True)
class Estimate:
    """What a run takes.

    Attributes:
        recipe: what is trained.
        machine: devices on each node, nodes, strategy, precision.
        device: on what.
        parameters: of the model.
        steps: of the run.
        micro: samples that a device treats at once.
        accumulate: times it does so in a step.
        work: of a device for these samples.
        memory: bytes on a device, by what they are for.
        seconds: of a step, by what they go to.
    """

    recipe: Recipe
    machine: RuntimeConfig
    device: Hardware
    parameters: int
    steps: int
    micro: int
    accumulate: int
    work: Work
    memory: dict[str, float]
    seconds: dict[str, float]

    @property
    def devices(self) -> int:
        """Of all nodes."""
        return (self.machine.devices or 1) * self.machine.nodes

    @property
    def flops(self) -> float:
        """Of a step, over all devices: matrix products and mixes."""
        return (self.work.products + self.work.mixes) * self.accumulate * self.devices

    @property
    def hours(self) -> float:
        """Of all steps; evaluations, reading of data and interruptions are not counted."""
        return self.steps * sum(self.seconds.values()) / 3600

    @property
    def dollars(self) -> float:
        """Of all devices for so long."""
        return self.hours * self.devices * self.device.price

    @property
    def link(self) -> float:
        """Bytes/s of a ring through all devices, one way."""
        return _slowest_link(self.machine, self.device)

    @property
    def fits(self) -> bool:
        """Whether a device's memory is enough."""
        return sum(self.memory.values()) <= self.device.memory

    @property
    def fitting(self) -> int:
        """The largest micro-batch that divides a device's samples and fits into its memory; 0 if none does."""
        whole, passing = self.micro * self.accumulate, self.memory["activations"] + self.memory["working space"]
        room = self.device.memory - (sum(self.memory.values()) - passing)
        return max((m for m in range(1, whole + 1) if whole % m == 0 and m * passing / self.micro <= room), default=0)


def estimate(recipe: Recipe, machine: RuntimeConfig, device: Hardware) -> Estimate:
    """Count a recipe's work, and estimate what it takes on so many devices."""
    layers_of(recipe)  # refuses recipes that build no model, before their data are looked for
    task = task_without_data(recipe)
    samples, _, _ = train_and_evaluation(task, recipe)
    steps = StepSchedule.of(recipe, len(samples)).total
    devices = (machine.devices or 1) * machine.nodes
    accumulate = DeviceShare.of(recipe, 0, devices).accumulate
    micro = recipe.batch_size // devices // accumulate
    work = count(recipe, task, micro, _HALF.get(machine.precision))
    with torch.device("meta"):
        parameters = sum(p.numel() for p in task.build_model(recipe).parameters())
    seconds = {name: accumulate * s for name, s in passes(work, device).items()}
    seconds |= {"optimiser": _optimiser_bytes(recipe, machine, parameters) / (device.traffic * device.bandwidth)}
    if devices > 1:
        seconds["gradients between devices"] = _sent_bytes(machine, parameters) / _slowest_link(machine, device)
    memory = _memory(recipe, machine, parameters, work)
    return Estimate(recipe, machine, device, parameters, steps, micro, accumulate, work, memory, seconds)


def passes(work: Work, device: Hardware) -> dict[str, float]:
    """Seconds of a forward and a backward pass: products by FLOPs, the rest by bytes, and what launching adds."""
    products = work.half / (device.products * device.half) + work.single / (device.products * device.single)
    traffic = work.moved / (device.traffic * device.bandwidth)
    waiting = max(0.0, work.operations * device.launch - products - traffic)
    return {"matrix products": products, "all else": traffic, "waiting for launches": waiting}


def _sharers(machine: RuntimeConfig) -> int:
    """Devices that share one set of weights."""
    return (machine.devices or 1) * machine.nodes if machine.strategy == "fsdp" else 1


def _memory(recipe: Recipe, machine: RuntimeConfig, parameters: int, work: Work) -> dict[str, float]:
    """Weights and both momenta of AdamW in 32 bits, the average if there is one, and what a step makes.

    Working space is a guess: an operation reads one large tensor and writes another.
    """
    copies = 3 + bool(recipe.ema)
    memory = {"weights and optimiser": 4.0 * copies * parameters / _sharers(machine)}
    if machine.strategy == "fsdp":
        memory["weights gathered"] = 4.0 * parameters
    return memory | {"gradients": 4.0 * parameters, "activations": work.kept, "working space": 2 * work.largest}


def _optimiser_bytes(recipe: Recipe, machine: RuntimeConfig, parameters: int) -> float:
    """AdamW reads four numbers a parameter and writes three; clipping reads and scales one; the average two and one."""
    numbers = 7 + 3 * bool(recipe.clip) + 3 * bool(recipe.ema)
    return 4.0 * numbers * parameters / _sharers(machine)


def _sent_bytes(machine: RuntimeConfig, parameters: int) -> float:
    """A ring sends each gradient almost twice; FSDP sends the weights there and back again, as well."""
    devices = (machine.devices or 1) * machine.nodes
    return (3 if machine.strategy == "fsdp" else 2) * 4.0 * parameters * (devices - 1) / devices


def _slowest_link(machine: RuntimeConfig, device: Hardware) -> float:
    return device.link if machine.nodes == 1 else min(device.link, NETWORK)
