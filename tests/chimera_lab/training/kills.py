"""Kill training at random moments, let others try its folder, resume it, and compare with a run left alone.

    python -m tests.chimera_lab.training.kills --kills 50

Half of the kills come after a random time, half at a random operation on the run's files: while a checkpoint, a table
or the model is written, renamed or removed. While a process is stopped in mid-training, another one tries the same
folder, and must be refused. Every run that ends must be bitwise the same as one left alone: model/, about/, the tables,
the result, and all tensors of the last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from chimera_lab import cli
from chimera_lab.training import checkpoints
from chimera_lab.training.run import open_run

RECIPE = [
    "image/digits", "--hidden-size", "16", "--num-hidden-layers", "1", "--patch-size", "2", "--state-size", "4",
    "--num-heads", "2", "--train-limit", "96", "--epochs", "3", "--batch-size", "32", "--micro-batch", "16",
    "--log-every", "1", "--ema", "0.9", "--mixup", "0.3", "--drop-path", "0.1", "--warmup-epochs", "1",
    "--validation", "0.1", "--export", "best", "--accelerator", "cpu", "--devices", "1", "--checkpoint-every", "1",
]  # fmt: skip
SECONDS = 2.0
OPERATIONS = 60
_CHANGES = "open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"


def main(argv: list[str] | None = None) -> None:
    """Report how many kills there were, and what became of the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        print(dict(kill_and_resume(Path(folder), args.kills, random.Random(args.seed))))


def kill_and_resume(folder: Path, kills: int, chance: random.Random) -> Counter[str]:
    """Kill until there were as many kills, and finish what is unfinished then; how often what happened.

    Raises:
        AssertionError: a run differs from the one left alone, or two processes had the same folder.
    """
    alone = folder / "alone"
    assert _ended(_start(alone, folder / "alone.txt")) == 0, (folder / "alone.txt").read_text()
    expected, happened = _remains(alone), Counter[str]()
    while happened["kills"] < kills or happened["runs"] == 0:
        run = folder / f"run-{happened['runs']}"
        while not (run / "result.json").exists():
            last = happened["kills"] >= kills
            happened += _attempt(run, folder / "log.txt", None if last else chance)
        assert _remains(run) == expected, f"{run} differs from a run left alone"
        happened["runs"] += 1
    return happened


def _attempt(run: Path, log: Path, chance: random.Random | None) -> Counter[str]:
    """Train, or go on, until a kill or the end; meanwhile another process tries the same folder."""
    happened = Counter[str]()
    in_a_write = chance is not None and chance.random() < 0.5
    process = _start(run, log, chance.randrange(1, OPERATIONS) if chance and in_a_write else None)
    before = time.monotonic()
    happened += _try_the_same_folder(run, process, log.with_name("second.txt"))
    if chance is not None and not in_a_write:
        process.join(max(0.0, chance.uniform(0, SECONDS) - (time.monotonic() - before)))
        process.kill()
    code = _ended(process)
    if code == -signal.SIGKILL:
        happened["kills"] += 1
        if in_a_write:
            happened[f"before an operation on {log.read_text().splitlines()[-1]}"] += 1
    else:
        assert code == 0, log.read_text()
    return happened


def _try_the_same_folder(run: Path, process: multiprocessing.Process, log: Path) -> Counter[str]:
    """Stop a process once it has its folder's lock, and let a second one try: it must be refused."""
    while process.is_alive() and not _has_lock(process, run):
        time.sleep(0.005)
    if not process.is_alive():
        return Counter()
    os.kill(process.pid, signal.SIGSTOP)
    try:
        if not _has_lock(process, run):  # it ended in the meantime
            return Counter()
        code, said = _ended(_start(run, log)), log.read_text()
        assert code == 2, said
        assert f"{run} is in use by process {process.pid} on " in said, said
        return Counter(refused=1)
    finally:
        os.kill(process.pid, signal.SIGCONT)


def _has_lock(process: multiprocessing.Process, run: Path) -> bool:
    try:
        return json.loads((run / ".lock").read_text())["pid"] == process.pid
    except (OSError, ValueError):
        return False


def _start(run: Path, log: Path, operation: int | None = None) -> multiprocessing.Process:
    """A process that trains a run from its beginning, or goes on with it.

    Args:
        run: its folder.
        log: takes what the process says.
        operation: if given, the process kills itself before this operation on the run's files.
    """
    process = multiprocessing.get_context("fork").Process(target=_train, args=(run, log, operation))
    process.start()
    return process


def _train(run: Path, log: Path, operation: int | None) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    if operation is not None:
        _kill_before(operation, run)
    is_there = (run / "config.yaml").exists()
    code = cli.main(["train", "--resume", str(run)] if is_there else ["train", *RECIPE, "--out", str(run)])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _kill_before(operation: int, run: Path) -> None:
    """End this process before it has opened, renamed or removed this many files of a run."""
    left = operation

    def count(event: str, args: tuple[object, ...]) -> None:
        nonlocal left
        if event in _CHANGES and str(args[0]).startswith(str(run)):
            left -= 1
            if left == 0:
                inside = Path(str(args[0])).relative_to(run).parts
                os.write(2, f"\n{inside[0] if inside else 'the folder'}".encode())
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def _ended(process: multiprocessing.Process) -> int | None:
    process.join(120)
    if process.is_alive():
        process.kill()
        process.join()
        raise AssertionError("a run took more than two minutes")
    return process.exitcode


def _remains(folder: Path) -> dict[str, object]:
    """All of a finished run that does not depend on the time of day."""
    files = [*folder.glob("model/*"), *folder.glob("about/*"), *folder.glob("*.csv"), folder / "config.yaml"]
    found: dict[str, object] = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    found["leftovers"] = [path.name for path in folder.rglob("*.part")]
    run = open_run(folder)
    found["result"] = {name: value for name, value in (run.result or {}).items() if name != "seconds"}
    last = checkpoints.checkpoints(run.checkpoints)[-1]
    state = torch.load(last, weights_only=True)
    found["checkpoint"] = last.name, str(state["chimera"]), _tensors(state["state_dict"])
    found["optimiser"] = [_tensors(values) for values in state["optimizer_states"][0]["state"].values()]
    return found


def _tensors(values: dict[str, torch.Tensor]) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in values.items()}


if __name__ == "__main__":
    main()
