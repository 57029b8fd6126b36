"""The tables and the text that `chimera plan` prints."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from chimera_lab.planning.check import CheckedStep
from chimera_lab.planning.estimate import Estimate
from chimera_ssm.gpu.availability import triton_is_installed


def estimate_table(plan: Estimate) -> Table:
    """Parameters, steps, work, memory, time and price of a run."""
    counts, step = plan.counts, sum(plan.seconds.values())
    mixes = counts.mix_flops / (counts.matmul_flops + counts.mix_flops)
    machine = plan.machine
    table = Table("", "", title=f"{plan.devices} × {plan.device.name}, {machine.strategy}, {machine.precision}")
    table.add_row("parameters", f"{plan.parameters:,}")
    times = f", {plan.accumulate} times" if plan.accumulate > 1 else ""
    table.add_row(
        "steps", f"{plan.steps:,} of {plan.recipe.batch_size:,} samples; each GPU processes {plan.micro} at once{times}"
    )
    table.add_row("work per step", f"{plan.flops:.2e} FLOPs, {mixes:.0%} of them in mixes")
    table.add_row("memory per GPU", _memory_cell(plan))
    for name, size in plan.memory.items():
        table.add_row(f"  {name}", _size(size))
    table.add_row("time per step", f"{step:.3g} s")
    for name, seconds in plan.seconds.items():
        table.add_row(f"  {name}", f"{seconds / step:.0%}")
    time = f"{plan.hours:,.1f} hours" if plan.hours >= 1 else f"{60 * plan.hours:.1f} minutes"
    table.add_row("estimate", f"[bold]{time}, ${plan.dollars:,.{0 if plan.dollars >= 10 else 2}f}[/]")
    return table


def assumptions(plan: Estimate) -> str:
    """What an estimate counts and what it assumes of the hardware."""
    gpu = plan.device
    between = f"{plan.link / 1e9:g} GB/s from GPU to GPU; " if plan.devices > 1 else ""
    return (
        f"{_what_is_counted(plan)} Assumed: matrix products reach "
        f"{gpu.matmul_efficiency:.0%} of {gpu.half_rate / 1e12:g} TFLOP/s in 16 bits{_of_mixes(plan)} and of "
        f"{gpu.single_rate / 1e12:g} TFLOP/s in 32 bits; all other operations reach {gpu.bandwidth_efficiency:.0%} of "
        f"{gpu.bandwidth / 1e9:g} GB/s; an operation takes at least {gpu.launch_seconds * 1e6:g} µs; {between}"
        f"a GPU costs ${gpu.price:.2f} per hour (--price). "
        "Evaluation and data loading are not counted. No GPU was measured."
    )


def _what_is_counted(plan: Estimate) -> str:
    if not plan.has_kernels:
        missing = "" if triton_is_installed() else "; Triton is not installed here, which counts kernels"
        return f"FLOPs, bytes and operations are counted in small steps of plain PyTorch{missing}."
    mixes = (
        "Mixes are counted as Triton kernels compute them (chimera bench --gpu-estimate). " if _has_mixes(plan) else ""
    )
    if not plan.compiled:
        return f"{mixes}Other FLOPs, bytes and operations are counted in small steps of plain PyTorch."
    return (
        f"{mixes}The model without its head is counted as torch.compile would run it, which training on GPUs does "
        "(--compile): operations between two matrix products, convolutions, attentions or mixes are fused. Other "
        "FLOPs, bytes and operations are counted in small steps of plain PyTorch."
    )


def _of_mixes(plan: Estimate) -> str:
    rate = f"{plan.device.tf32_rate / 1e12:g} TFLOP/s in TF32, which masks use,"
    return f", of {rate}" if plan.has_kernels and _has_mixes(plan) and plan.machine.precision != "32" else ""


def _has_mixes(plan: Estimate) -> bool:
    return plan.counts.mix_flops > 0


def check_table(steps: Sequence[CheckedStep]) -> Table:
    """Predicted and measured time of small steps."""
    table = Table("layers", "samples", "predicted", "measured", "ratio", title="small steps on this CPU, 32 bits")
    for step in steps:
        times = (f"{1000 * seconds:.1f} ms" for seconds in (step.predicted, step.measured))
        table.add_row(str(step.layers), str(step.samples), *times, f"{step.predicted / step.measured:.2f}")
    return table


def _memory_cell(plan: Estimate) -> str:
    needed, available = _size(sum(plan.memory.values())), _size(plan.device.memory)
    if plan.fits:
        return f"{needed} of {available}"
    remedy = f"add --micro-batch {plan.fitting}" if plan.fitting else "try --strategy fsdp, or another GPU"
    return f"{needed} needed, {available} available: [red]does not fit[/]; {remedy}"


def _size(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
