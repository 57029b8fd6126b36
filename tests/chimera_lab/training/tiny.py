"""A recipe that trains in a second or two, and runs of it."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import chimera_ssm
from chimera_lab.training.image_recipe import ImageRecipe
from chimera_lab.training.recipe import RuntimeConfig
from chimera_lab.training.records import read_table
from chimera_lab.training.run import Run

TINY = ImageRecipe(
    hidden_size=16, num_hidden_layers=2, patch_size=2, state_size=4, num_heads=2,
    train_limit=200, epochs=3, batch_size=32, micro_batch=16, log_every=1, ema=0.9, warmup_epochs=1,
    drop_path=0.1, shift=1, mixup=0.3, cutmix=0.3,
)  # fmt: skip
CPU = RuntimeConfig(accelerator="cpu", devices=1)


def make_run(folder, runtime=CPU, **changes):
    run = Run(folder, "image/tiny", replace(TINY, **changes), runtime)
    run.create()
    return run


def what_remains(run):
    """All of a run that does not depend on the time of day."""
    files = [*run.model.iterdir(), *run.about.iterdir(), *map(run.folder.joinpath, ("metrics.csv", "steps.csv"))]
    files.append(run.folder / "config.yaml")
    return {str(path.relative_to(run.folder)): path.read_bytes() for path in files}


def train_in_processes(run, program):
    """Train a run in processes of its own, by a file that each of them can be started from."""
    program.write_text(
        "import sys\nfrom pathlib import Path\nfrom chimera_lab.training.run import open_run\n"
        "from chimera_lab.training.fit import train\ntrain(open_run(Path(sys.argv[1])))\n"
    )
    path = os.pathsep.join([str(Path(chimera_ssm.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, program, run.folder], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


def same_tables(one, two, **tolerance):
    """The tables of two runs are the same, to a tolerance."""
    for name in ("steps.csv", "metrics.csv"):
        for a, b in zip(read_table(one.folder / name), read_table(two.folder / name), strict=True):
            expected = {key: float(value) for key, value in b.items()}
            assert {key: float(value) for key, value in a.items()} == pytest.approx(expected, **tolerance)
