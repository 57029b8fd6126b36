"""Counted work against what is known by hand; estimates against their parts; commands against the program's parser."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from chimera_lab import cli
from chimera_lab.planning.count import (
    SmallStep,
    StepCounts,
    Target,
    count,
    count_step,
    count_with_kernels,
    seconds_of_mixes,
)
from chimera_lab.planning.estimate import estimate, passes
from chimera_lab.planning.hardware import GPUS, find_gpu
from chimera_lab.planning.launch import slurm, torchrun
from chimera_lab.planning.mixes import MixCall, Shape
from chimera_lab.planning.synthetic_data import GRAPHS, task_without_data
from chimera_lab.planning.traffic import Traffic
from chimera_lab.recipes import find_recipe
from chimera_lab.training.kinds import count_parameters, create_task
from chimera_lab.training.recipe import RuntimeConfig

DIGITS = replace(find_recipe("image/digits"), hidden_size=16, state_size=4, num_heads=2, num_hidden_layers=3)


# What is counted


def test_traffic_of_a_product_and_a_sum():
    a, b, c = torch.randn(8, 16), torch.randn(16, 4), torch.randn(8, 4)
    with Traffic() as traffic:
        y = (a @ b).view(4, 8) + c.expand(8, 4).view(4, 8)
        traffic.end_of_forward()
        del y
    assert (traffic.single_flops, traffic.half_flops) == (2 * 8 * 16 * 4, 0)
    assert traffic.bytes_moved == 3 * 8 * 4 * 4  # two read, one written; views cost nothing
    assert traffic.operations == 2
    assert traffic.activation_bytes == traffic.largest_bytes == 8 * 4 * 4  # the sum; the product is gone
    assert traffic.live_bytes == 0


def test_what_is_picked_is_read_once_and_halves_are_told_apart():
    table, rows = torch.randn(1000, 8), torch.arange(4)
    with Traffic() as traffic:
        table[rows]
        table[:4].bfloat16() @ table[:8].bfloat16().mT
    assert traffic.half_flops == 2 * 4 * 8 * 8
    assert traffic.bytes_moved == 2 * 4 * 8 * 4 + 4 * 8 * (4 + 2) + 8 * 8 * (4 + 2)


def test_what_is_added_in_place_touches_as_many_rows_as_are_added():
    table, rows, source = torch.zeros(1000, 8), torch.arange(4), torch.randn(4, 8)
    with Traffic() as traffic:
        table.index_add_(0, rows, source)
        torch.empty(1000)
    assert traffic.bytes_moved == 3 * 4 * 8 * 4 + 4 * 8  # rows read and written, the source, its index
    assert traffic.operations == 1


def test_flash_attention_moves_no_scores():
    q, k, v = (torch.randn(2, 3, 256, 16, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), Traffic() as forward:
        y = scaled_dot_product_attention(q, k, v)
    grad = torch.randn_like(y)
    with Traffic() as backward:
        torch.autograd.grad(y, (q, k, v), grad)
    one, scores = 2 * 2 * 3 * 256 * 16, 2 * 3 * 256 * 256
    assert forward.half_flops == 2 * 2 * scores * 16
    assert backward.half_flops == 5 * 2 * scores * 16
    assert 4 * one <= forward.bytes_moved < 5 * one
    assert 8 * one <= backward.bytes_moved < 10 * one


def test_flops_of_a_grid_are_those_of_its_blocks():
    """One block of rows visits all three of them, in either direction."""
    pytest.importorskip("triton")
    from chimera_lab.planning.kernels import Case, launches_of_grids
    from chimera_lab.planning.roofline import kernel_flops

    heads, dags = 2, 4
    forward, _ = launches_of_grids(Case(32, 16, torch.float32, "high", (3, 14)), Z=1, H=heads)
    assert [launch.kernel.__name__ for launch in forward] == ["row_masks", "stored_outputs"]
    assert kernel_flops(forward[0]) == (0, 0, 0)
    visited = 2 * heads * dags / 2 * 3 * 64 * 16  # for each pair of DAGs: rows, nodes, width
    assert kernel_flops(forward[1]) == (visited * 16, visited * 2 * 16, 0)  # one product with V, two with masks
    forward, _ = launches_of_grids(Case(32, 16, torch.float32, "high", (1, 20)), Z=1, H=heads)
    visited = 2 * heads * dags * 1 * 32 * 32
    assert [launch.kernel.__name__ for launch in forward] == ["row_masks", "grid_outputs"]
    assert kernel_flops(forward[1]) == (visited * (32 + 16), visited * 32, 0)


def test_products_of_a_model_are_those_of_its_layers():
    """Two FLOPs for each weight and token, forward; four backward, two where the input needs no gradient."""
    task, tokens = create_task(DIGITS), 2 * 64
    model = task.build_model(replace(DIGITS, num_hidden_layers=1))
    layers = {name: p.numel() for name, p in model.named_parameters() if p.dim() > 1 and "step_bias" not in name}
    expected = 0
    for name, size in layers.items():
        rows = 2 if "classifier" in name else tokens
        expected += (4 if "patch_embedding" in name else 6) * rows * size
    assert len(layers) == 5
    assert count_step(DIGITS, task, layers=1, samples=2).matmul_flops == pytest.approx(
        expected, rel=0.02
    )  # norms have some


@pytest.mark.parametrize("target", [None, "eager", "compiled"])
def test_four_small_steps_tell_the_work_of_a_larger_one(target):
    task = create_task(DIGITS)
    target = None if target is None else Target(find_gpu("a100"), torch.bfloat16, compiled=target == "compiled")
    told, true = count(DIGITS, task, 5, target), count_step(DIGITS, task, 3, 5, target)
    assert (told.matmul_flops, told.mix_flops) == (true.matmul_flops, true.mix_flops)
    for name in ("single_flops", "bytes_moved", "operations", "activation_bytes", "largest_bytes", "mix_seconds"):
        assert getattr(told, name) == pytest.approx(getattr(true, name), rel=0.05), name
    assert told.mix_flops > 0
    assert (told.half_flops == 0) is (target is None)


def test_mixes_are_counted_as_their_kernels_where_there_are_any():
    pytest.importorskip("triton")
    from chimera_lab.planning.roofline import mix_seconds

    task, target = create_task(DIGITS), Target(find_gpu("a100"), torch.bfloat16, compiled=True)
    step = count_with_kernels(SmallStep(DIGITS, task, 2, 3, torch.bfloat16), compiled=True)
    assert len(step.mixes) == 2  # one of each layer
    (seconds,) = {mix_seconds(call, 3, 3, target.device, "high") for call in step.mixes}
    found = count_step(DIGITS, task, 2, 3, target)
    assert found.mix_seconds == pytest.approx(2 * seconds)
    assert found.bytes_moved < count_step(DIGITS, task, 2, 3, replace(target, compiled=False)).bytes_moved / 2


def test_a_large_graph_has_no_kernels():
    pytest.importorskip("triton")
    V, keys, scale = ((1, 2, 1024, 8), (1, 1, 1024, 4), (1, 2, 1024))
    shapes = [(Shape(size, torch.float32, k),) for k, size in enumerate(((1, 2, 3968), keys, keys, scale))]
    call = MixCall(Shape(V, torch.float32, 9), *shapes, "Grid((32, 32))", "")
    assert seconds_of_mixes([call], 1, 1, Target(find_gpu("a100"))) is None  # sparse LU in PyTorch


# What is estimated


def test_seconds_are_those_of_products_traffic_and_launches():
    gpu = find_gpu("a100")
    work = StepCounts(
        0,
        0,
        half_flops=312e12,
        single_flops=19.5e12,
        bytes_moved=2039e9,
        operations=10,
        activation_bytes=0,
        largest_bytes=0,
    )
    assert passes(work, gpu) == pytest.approx(
        {"matrix products": 4, "mixes": 0, "other operations": 1 / 0.7, "waiting for launches": 0}
    )
    idle = StepCounts(0, 0, 0, 0, 0, operations=1000, activation_bytes=0, largest_bytes=0)
    assert sum(passes(idle, gpu).values()) == pytest.approx(1000 * gpu.launch_seconds)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_an_estimate_adds_up(strategy):
    machine = RuntimeConfig(accelerator="gpu", devices=2, nodes=2, strategy=strategy)
    plan = estimate(DIGITS, machine, find_gpu("t4"))
    assert (plan.devices, plan.micro, plan.accumulate) == (4, 16, 1)
    assert plan.parameters == count_parameters(DIGITS)
    assert plan.steps == 15 * ((1797 - 1797 // 4) // 64)
    copies = 4  # weights, two momenta, the average
    assert plan.memory["weights and optimiser"] == 4 * copies * plan.parameters / (4 if strategy == "fsdp" else 1)
    assert plan.hours == pytest.approx(plan.steps * sum(plan.seconds.values()) / 3600)
    assert plan.dollars == pytest.approx(plan.hours * 4 * 0.5)
    assert plan.fits
    passing = plan.memory["activations"] + plan.memory["working space"]
    fixed = sum(plan.memory.values()) - passing
    tight = replace(plan, device=replace(plan.device, memory=fixed + 0.3 * passing))
    assert not tight.fits
    assert tight.fitting == 4  # of 16: a quarter fits, a half does not
    assert replace(plan, device=replace(plan.device, memory=fixed)).fitting == 0


@pytest.mark.parametrize("name", ["image/imagenet", "text/c4", *(f"graph/{name}" for name in GRAPHS)])
def test_synthetic_data_have_the_sizes_of_the_data(name):
    recipe = find_recipe(name, "paper")
    task = task_without_data(recipe)
    samples = task.train_samples()
    if recipe.kind == "graph":
        facts, graph = GRAPHS[recipe.data], samples.sample(0)
        assert len(samples) == facts.count
        assert (len(graph["x"]), graph["edge_index"].shape[1]) == (facts.nodes, facts.edges)
        assert len(samples.collate([samples.sample(0), samples.sample(1)])["x"]) == 2 * facts.nodes
    elif recipe.kind == "text":
        assert len(samples) == recipe.steps * recipe.batch_size
        assert samples.sample(0)["input_ids"].shape == (128,)
    else:
        assert len(samples) == 1_281_167
        assert samples.sample(3)["pixel_values"].shape == (3, 224, 224)


def test_figures_of_gpus_are_plausible():
    for gpu in GPUS.values():
        assert gpu.single_rate < gpu.half_rate < 1e15
        assert 0 < gpu.link < gpu.bandwidth < 1e13
        assert 0 < gpu.matmul_efficiency < 1
        assert 0 < gpu.bandwidth_efficiency < 1
        assert 2**33 < gpu.memory < 2**38
    with pytest.raises(ValueError, match="did you mean 'a100'"):
        find_gpu("a1000")


# What to type


def test_commands_are_understood_by_the_program():
    words = ["image/digits", "--lr", "0.01"]
    machine = RuntimeConfig(accelerator="gpu", devices=4, nodes=2, strategy="fsdp", precision="bf16")
    command = torchrun(words, machine).replace("\\\n", " ").split()
    assert command[:5] == ["torchrun", "--nnodes", "2", "--nproc-per-node", "4"]
    args = cli._parser().parse_args(command[command.index("chimera") + 1 :])
    assert (args.recipe, args.lr, args.devices, args.nodes, args.strategy) == ("image/digits", 0.01, 4, 2, "fsdp")
    assert "--standalone --nproc-per-node 4" in torchrun(words, replace(machine, nodes=1))
    script = slurm(words, machine, hours=3.5)
    for line in (
        "--nodes=2",
        "--ntasks-per-node=4",
        "--gpus-per-node=4",
        "--time=4:22:00",
        "--resume runs/image-digits",
    ):
        assert line in script


def test_two_processes_of_torchrun_train_one_run(tmp_path):
    """The command that a plan prints, on CPUs."""
    words = ["image/digits", "--epochs", "1", "--train-limit", "64", "--hidden-size", "16", "--num-hidden-layers", "1"]
    command = torchrun(words, RuntimeConfig(accelerator="cpu", devices=2, strategy="ddp"))
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, env={**os.environ, "PATH": programs, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("run folder: runs/image-digits") == 1
    assert json.loads((tmp_path / "runs" / "image-digits" / "result.json").read_text())["steps"] == 1


def test_the_command_prints_a_plan_and_checks_it(tmp_path, capsys):
    script, small = tmp_path / "job.sbatch", ["--hidden-size", "16", "--state-size", "4", "--num-heads", "2"]
    options = ["--gpus", "2", "--gpu", "t4", "--precision", "32", "--price", "1", "--check", "--slurm", str(script)]
    assert cli.main(["plan", "image/digits", *options, *small]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for words in (
        "2 × t4",
        "FLOPs",
        "minutes, $0.0",
        "torchrun --standalone --nproc-per-node 2",
        "predicted",
        "ratio",
        "GB/s from GPU to GPU",
        "No GPU",
    ):
        assert words in out
    assert "--hidden-size 16" in script.read_text()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["image/digits", "--gpu", "a1000"], "unknown GPU 'a1000', did you mean 'a100'?"),
        (["--gpus", "2", "image/digit"], "unknown recipe 'image/digit', did you mean 'image/digits'?"),
        (["image/digits", "--gpus", "12"], "--gpus must be a multiple of --per-node"),
        (["image/digits", "--gpu", "t4", "--precision", "bf16"], "the t4 does not compute in bf16"),
        (["image/digits", "--price", "nan"], "--price must be a number of at least 0, found nan"),
        (["image/digits", "--gpus", "5"], "batch_size 64 cannot be shared by 5 devices"),
        (["text/glue-cola", "--gpus", "1"], "plan the recipe that makes the model"),
    ],
)
def test_errors_are_one_line(argv, message, capsys):
    assert cli.main(["plan", *argv]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
