"""`chimera plan`: what a recipe would take on GPUs, and the commands to run it there."""

from __future__ import annotations

import argparse
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chimera_lab.cli.train import add_settings, given, recipe_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chimera_lab.planning import Estimate

EXAMPLE = """chimera plan image/imagenet --gpus 8 --gpu a100
  chimera plan text/c4 --gpus 32 --gpu h100 --strategy fsdp --slurm c4.sbatch
  chimera plan image/digits --gpus 1 --gpu t4 --precision 32 --check"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """The options of the command, and the settings of the recipe that is named in ``argv``."""
    from chimera_lab.training.settings import keys

    parser.usage = "chimera plan RECIPE [--gpus N] [--gpu NAME] [--KEY VALUE …]"
    parser.add_argument("recipe", metavar="RECIPE", help="chimera list shows them")
    parser.add_argument("--scale", choices=("paper", "laptop"), help="the paper's where it exists")
    parser.add_argument("--gpus", type=int, default=8, metavar="N", help="GPUs of all nodes (8)")
    parser.add_argument(
        "--gpu", default="a100", metavar="NAME", help="t4, v100, rtx4090, l4, a100-40gb, a100, h100 (a100)"
    )
    parser.add_argument("--per-node", type=int, default=8, metavar="N", help="GPUs of a node (8)")
    parser.add_argument("--price", type=float, metavar="DOLLARS", help="of a GPU for an hour, if you know better")
    parser.add_argument("--strategy", choices=("ddp", "fsdp"), default="ddp", help="how GPUs share the work (ddp)")
    parser.add_argument("--precision", choices=("bf16", "16", "32"), help="bf16, or 16 where a GPU has no bf16")
    parser.add_argument("--slurm", type=Path, metavar="FILE", help="write a script for sbatch there")
    parser.add_argument("--check", action="store_true", help="also predict and measure small steps on this machine")
    recipe, name = recipe_in(argv, "paper")
    if recipe is not None:
        add_settings(parser, f"settings of {name}", keys(type(recipe)), recipe)


def run(args: argparse.Namespace) -> None:
    """Count, estimate, and tell."""
    import rich

    from chimera_lab.planning import estimate, find_gpu
    from chimera_lab.planning.launch import slurm, torchrun
    from chimera_lab.recipes import all_recipes, find_recipe

    _check(args)
    scale = _scale(args.recipe, args.scale)
    recipe = find_recipe(args.recipe, scale)
    changes = given(args, recipe)
    recipe, device = replace(recipe, **changes), find_gpu(args.gpu)
    device = device if args.price is None else replace(device, price=args.price)
    machine = _machine(args, device.bf16)
    plan = estimate(recipe, machine, device)
    rich.print(f"[bold]{args.recipe}[/] at the {scale}'s scale: {all_recipes()[args.recipe].doc}")
    rich.print(_table(plan))
    rich.print(_assumptions(plan))
    if not plan.fits and plan.fitting:
        changes |= {"micro_batch": plan.fitting}
    words = [args.recipe, "--scale", scale, *_as_options(changes)]
    smaller = "" if plan.fits or not plan.fitting else ", with a micro-batch that fits"
    where = "each of the nodes" if machine.nodes > 1 else "the machine"
    print(f"\non {where}{smaller}:\n  {torchrun(words, machine)}")
    if args.slurm is None:
        print("with SLURM: add --slurm FILE, then sbatch FILE")
    else:
        args.slurm.write_text(slurm(words, machine, plan.hours), encoding="utf-8")
        print(f"with SLURM:\n  sbatch {args.slurm}")
    if args.check:
        _tell_check(recipe)


def _check(args: argparse.Namespace) -> None:
    if args.price is not None and not 0 <= args.price < inf:
        raise ValueError(f"--price must be a number of at least 0, found {args.price:g}")
    if args.slurm is not None and not args.slurm.parent.is_dir():
        raise ValueError(f"cannot write {args.slurm}: there is no folder {args.slurm.parent}; create it first")


def _scale(name: str, asked: str | None) -> Any:
    from chimera_lab.recipes import all_recipes

    entry = all_recipes().get(name)
    return asked or ("paper" if entry is None or "paper" in entry.scales else "laptop")


def _machine(args: argparse.Namespace, bf16: bool) -> Any:
    from chimera_lab.training.recipe import RuntimeConfig

    if min(args.gpus, args.per_node) < 1 or args.gpus % min(args.gpus, args.per_node):
        raise ValueError(
            f"--gpus must be a multiple of --per-node, both at least 1; found {args.gpus} and {args.per_node}"
        )
    per_node = min(args.gpus, args.per_node)
    precision = args.precision or ("bf16" if bf16 else "16")
    if precision == "bf16" and not bf16:
        raise ValueError(f"the {args.gpu} does not compute in bf16; use --precision 16 or 32")
    return RuntimeConfig(
        accelerator="gpu", devices=per_node, nodes=args.gpus // per_node, strategy=args.strategy, precision=precision
    )


def _as_options(changes: dict[str, Any]) -> list[str]:
    texts = {name: ",".join(map(str, v)) if isinstance(v, tuple) else str(v) for name, v in changes.items()}
    return [word for name, text in texts.items() for word in (f"--{name.rstrip('_').replace('_', '-')}", text)]


def _table(plan: Estimate) -> Any:
    from rich.table import Table

    work, step = plan.work, sum(plan.seconds.values())
    mixes = work.mixes / (work.products + work.mixes)
    table = Table(
        "", "", title=f"{plan.devices} × {plan.device.name}, {plan.machine.strategy}, {plan.machine.precision}"
    )
    table.add_row("parameters", f"{plan.parameters:,}")
    times = f", {plan.accumulate} times" if plan.accumulate > 1 else ""
    table.add_row(
        "steps", f"{plan.steps:,} of {plan.recipe.batch_size:,} samples, {plan.micro} at once on a GPU{times}"
    )
    table.add_row("work of a step", f"{plan.flops:.2e} FLOPs, {mixes:.0%} of them in mixes")
    table.add_row("memory of a GPU", f"{_size(sum(plan.memory.values()))} of {_size(plan.device.memory)} {_fits(plan)}")
    for name, size in plan.memory.items():
        table.add_row(f"  {name}", _size(size))
    table.add_row("time of a step", f"{step:.3g} s")
    for name, seconds in plan.seconds.items():
        table.add_row(f"  {name}", f"{seconds / step:.0%}")
    time = f"{plan.hours:,.1f} hours" if plan.hours >= 1 else f"{60 * plan.hours:.1f} minutes"
    table.add_row("estimate", f"[bold]{time}, ${plan.dollars:,.{0 if plan.dollars >= 10 else 2}f}[/]")
    return table


def _fits(plan: Estimate) -> str:
    if plan.fits:
        return ""
    remedy = f"add --micro-batch {plan.fitting}" if plan.fitting else "try --strategy fsdp, or another GPU"
    return f"[red]too much[/]: {remedy}"


def _size(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"


def _assumptions(plan: Estimate) -> str:
    gpu = plan.device
    between = f"{plan.link / 1e9:g} GB/s from GPU to GPU; " if plan.devices > 1 else ""
    return (
        f"FLOPs, bytes and operations are counted in small steps of plain PyTorch. Assumed: matrix products reach "
        f"{gpu.products:.0%} of {gpu.half / 1e12:g} TFLOP/s in 16 bits and of {gpu.single / 1e12:g} in 32, in which "
        f"mixes are computed; all else {gpu.traffic:.0%} of {gpu.bandwidth / 1e9:g} GB/s; an operation takes "
        f"{gpu.launch * 1e6:g} µs at least; {between}${gpu.price:.2f} for a GPU's hour (--price). Evaluations and "
        "reading of data are not counted. No GPU was measured."
    )


def _tell_check(recipe: Any) -> None:
    import rich
    from rich.table import Table

    from chimera_lab.planning.check import check

    table = Table("layers", "samples", "predicted", "measured", "ratio", title="small steps on this CPU, 32 bits")
    for c in check(recipe):
        times = (f"{1000 * seconds:.1f} ms" for seconds in (c.predicted, c.measured))
        table.add_row(str(c.layers), str(c.samples), *times, f"{c.predicted / c.measured:.2f}")
    rich.print(table)
