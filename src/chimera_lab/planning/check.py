"""The same estimate for the machine at hand, beside what is measured on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time

import torch

from chimera_lab.planning.count import Traffic, Work, count_step, small_step
from chimera_lab.planning.estimate import passes
from chimera_lab.planning.hardware import Hardware
from chimera_lab.planning.stand_ins import task_without_data
from chimera_lab.training.recipe import Recipe
from chimera_ssm.cpu.availability import disable_kernels

#: Layers and samples of the steps.
SIZES = (1, 2), (2, 2), (2, 4)


@dataclass(frozen=True)
class Checked:
    """A small step: its layers and samples, and its seconds."""

    layers: int
    samples: int
    predicted: float
    measured: float


def check(recipe: Recipe, rounds: int = 3) -> list[Checked]:
    """Predict and measure small steps in plain PyTorch, in 32 bits, on one thread of this CPU.

    What the CPU can do (FLOP/s of a matrix product, bytes/s of adding two tensors, seconds of an operation on next to
    nothing) is measured in turns with the steps, in seconds of the CPU, so that other programs do not matter.
    """
    task = task_without_data(recipe)
    works = [count_step(recipe, task, *size) for size in SIZES]
    steps = [small_step(recipe, task, *size) for size in SIZES]
    side = getattr(recipe, "hidden_size", 256)
    a, b, (x, y) = torch.randn(4 * side, side), torch.randn(side, 4 * side), torch.randn(2, 1 << 20)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with disable_kernels():
            probes = [lambda: a @ b, lambda: torch.add(x, y), _chain]
            product, addition, chain, *measured = _best_in_turns([*probes, *steps], rounds)
    finally:
        torch.set_num_threads(threads)
    flops, bandwidth = 2 * 16 * side**3 / product, 12 * len(x) / addition
    here = Hardware("this CPU", flops, flops, bandwidth, 0, 0, 0, products=1, traffic=1, launch=0)
    with Traffic() as traffic:
        _chain()
    each = chain / traffic.operations
    return [
        Checked(*size, _predicted(work, here, each), seconds)
        for size, work, seconds in zip(SIZES, works, measured, strict=True)
    ]


def _predicted(work: Work, here: Hardware, each: float) -> float:
    """A GPU is told what to do next while it works; on a CPU, what each operation costs by itself is added."""
    return sum(passes(work, here).values()) + work.operations * each


def _chain() -> None:
    """Many operations on next to nothing, forward and backward."""
    x = w = torch.ones(8, requires_grad=True)
    for _ in range(50):
        x = x * w + w
    x.sum().backward()


def _best_in_turns(functions: list[Callable[[], object]], rounds: int) -> list[float]:
    """Least seconds of each function, all called in turns after a first call."""
    best = [float("inf")] * len(functions)
    for turn in range(rounds + 1):
        for k, function in enumerate(functions):
            start = thread_time()
            function()
            if turn:
                best[k] = min(best[k], thread_time() - start)
    return best
