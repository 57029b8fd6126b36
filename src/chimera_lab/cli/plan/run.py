"""Estimate a recipe's time, memory and price on GPUs, and print the command that starts it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from math import inf
from typing import Any

import rich

from chimera_lab.cli.options import ChosenRecipe, check_parent, chosen_recipe, given_settings
from chimera_lab.cli.plan.tables import assumptions, check_table, estimate_table
from chimera_lab.planning.check import check
from chimera_lab.planning.estimate import Estimate, estimate
from chimera_lab.planning.hardware import find_gpu
from chimera_lab.planning.launch import slurm, torchrun
from chimera_lab.recipes import all_recipes
from chimera_lab.training.recipe import RuntimeConfig


def run(args: argparse.Namespace) -> None:
    """Count the work of a step, estimate the run, and print both with the launch command."""
    _check(args)
    chosen = chosen_recipe(args)
    changes = given_settings(args, chosen.recipe)
    recipe, gpu = replace(chosen.recipe, **changes), find_gpu(args.gpu)
    gpu = gpu if args.price is None else replace(gpu, price=args.price)
    machine = _machine(args, gpu.bf16)
    plan = estimate(recipe, machine, gpu)
    rich.print(f"[bold]{chosen.name}[/] at the {chosen.scale}'s scale: {all_recipes()[chosen.name].doc}")
    rich.print(estimate_table(plan))
    rich.print(assumptions(plan))
    _print_launch(args, chosen, changes, plan)
    if args.check:
        rich.print(check_table(check(recipe)))


def _check(args: argparse.Namespace) -> None:
    if args.price is not None and not 0 <= args.price < inf:
        raise ValueError(f"--price must be a number of at least 0, found {args.price:g}")
    if args.slurm is not None:
        check_parent(args.slurm)


def _machine(args: argparse.Namespace, bf16: bool) -> RuntimeConfig:
    per_node = min(args.gpus, args.per_node)
    if per_node < 1 or args.gpus % per_node:
        raise ValueError(
            f"--gpus must be a multiple of --per-node, both at least 1; found {args.gpus} and {args.per_node}"
        )
    precision = args.precision or ("bf16" if bf16 else "16")
    if precision == "bf16" and not bf16:
        raise ValueError(f"the {args.gpu} does not compute in bf16; use --precision 16 or 32")
    return RuntimeConfig(
        accelerator="gpu",
        devices=per_node,
        nodes=args.gpus // per_node,
        strategy=args.strategy,
        precision=precision,
        compile=args.compile,
    )


def _print_launch(args: argparse.Namespace, chosen: ChosenRecipe, changes: dict[str, Any], plan: Estimate) -> None:
    """Print the command for torchrun and SLURM; if memory does not suffice, with the largest micro-batch that fits."""
    remark = ""
    if not plan.fits and plan.fitting:
        changes, remark = changes | {"micro_batch": plan.fitting}, ", with a micro-batch that fits"
    words = [chosen.name, "--scale", chosen.scale, *_as_options(changes)]
    where = "each of the nodes" if plan.machine.nodes > 1 else "the machine"
    print(f"\non {where}{remark}:\n  {torchrun(words, plan.machine)}")
    if args.slurm is None:
        print("with SLURM: add --slurm FILE, then sbatch FILE")
    else:
        args.slurm.write_text(slurm(words, plan.machine, plan.hours), encoding="utf-8")
        print(f"with SLURM:\n  sbatch {args.slurm}")


def _as_options(changes: dict[str, Any]) -> list[str]:
    texts = {name: ",".join(map(str, v)) if isinstance(v, tuple) else str(v) for name, v in changes.items()}
    return [word for name, text in texts.items() for word in (f"--{name.rstrip('_').replace('_', '-')}", text)]
