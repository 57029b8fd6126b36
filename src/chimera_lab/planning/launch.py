"""Commands that start a run on several devices: torchrun on each node, or a SLURM job."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from chimera_lab.training.recipe import RuntimeConfig
from chimera_lab.training.settings import as_dict


def train_command(recipe: Sequence[str], machine: RuntimeConfig) -> str:
    """``chimera train`` with a run folder that all processes share.

    Args:
        recipe: its name and options.
        machine: settings that differ from their defaults become options.
    """
    usual = as_dict(RuntimeConfig())
    changed = [f"--{k.replace('_', '-')} {v}" for k, v in as_dict(machine).items() if v != usual[k]]
    folder = f"runs/{recipe[0].replace('/', '-')}"
    return " ".join(["chimera train", shlex.join(recipe), *changed, f"--out {folder}"])


def torchrun(recipe: Sequence[str], machine: RuntimeConfig) -> str:
    """The command to type on each node."""
    where = f"--nproc-per-node {machine.devices or 1}"
    if machine.nodes == 1:
        where = f"--standalone {where}"
    else:
        meeting = "--rdzv-backend c10d --rdzv-endpoint FIRST_NODE:29500 --rdzv-id 1"
        where = f"--nnodes {machine.nodes} {where} {meeting}"
    return f"torchrun {where} --no-python \\\n  {train_command(recipe, machine)}"


def slurm(recipe: Sequence[str], machine: RuntimeConfig, hours: float) -> str:
    """A script for sbatch. Submitted again after its time limit or a kill, it resumes the run."""
    name = recipe[0].replace("/", "-")
    train = train_command(recipe, machine)
    return f"""#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes={machine.nodes}
#SBATCH --ntasks-per-node={machine.devices or 1}
#SBATCH --gpus-per-node={machine.devices or 1}
#SBATCH --cpus-per-task=8
#SBATCH --time={_time(1.25 * hours)}
#SBATCH --signal=TERM@120

if [ -e runs/{name}/config.yaml ]; then
  srun chimera train --resume runs/{name}
else
  srun {train}
fi
"""


def _time(hours: float) -> str:
    minutes = max(10, round(60 * hours))
    return f"{minutes // 60}:{minutes % 60:02}:00"
