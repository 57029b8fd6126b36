"""The benchmark: the right figures in the right fields, and what is measured."""

import json
import math
import os
import signal
import subprocess
import sys
from functools import partial

import pytest
import torch

import chimera_ssm
from chimera_lab import baselines, cli
from chimera_lab.cli.bench import (
    cases,
    isolated,
    mamba_workloads,
    measure,
    memory,
    model_workloads,
    point,
    report,
    scaling,
    table,
    topologies,
    workloads,
)

PROGRAM = "import sys\nfrom chimera_lab.cli import main\n"


def run_python(code, *arguments):
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)


# The benchmark


def test_quick_bench_prints_a_table_and_writes_its_figures(tmp_path, capsys):
    threads = torch.get_num_threads()
    data, page = tmp_path / "bench.json", tmp_path / "performance.md"
    assert cli.main(["bench", "--quick", "--only", "small", "--json", str(data), "--docs", str(page)]) == 0
    out = capsys.readouterr().out
    for word in ("small", "target", "attention", "best (median)", "wrote"):
        assert word in out
    run = json.loads(data.read_text())
    assert {"command", "machine", "threads", "seconds_per_case", "cases", "scaling"} == set(run)
    assert run["threads"] == threads
    assert run["command"].startswith("chimera bench --quick --only small")
    (case,) = run["cases"]
    assert (case["name"], case["against"]) == ("small", "attention, 4 heads of 16")
    for key in ("forward", "forward_backward"):
        figures = case[key]
        assert figures["ratio"] == figures["workload"]["best"] / figures["baseline"]["best"] > 0
        assert figures["median_ratio"] > 0
        assert figures["met"] == (figures["ratio"] <= figures["target"])
        assert figures["workload"]["rounds"] == figures["baseline"]["rounds"] >= 3
        assert 0 < figures["workload"]["best"] <= figures["workload"]["median"]
    text = page.read_text()
    assert run["command"] in text
    assert "| small |" in text
    assert run["machine"]["torch"] in text


def test_what_was_added_to_a_page_by_hand_is_kept():
    added = f"{report.BY_HAND}\n\n## More\n"
    assert report.by_hand(f"# Performance\n\n{added}") == f"\n{added}"
    assert report.by_hand("# Performance\n") == ""


def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_case_that_is_ended_by_the_system_is_named(monkeypatch):
    monkeypatch.setattr(isolated, "_figures", killed)
    with pytest.raises(ValueError, match=r"^small was killed by the system, .* memory ran out"):
        isolated.measure_isolated(cases.CASES["small"], 0.01, None)


def settings_of_malloc(*_):
    return [name for name in os.environ if name.startswith(("MALLOC_", "GLIBC_"))], None, None


def test_cases_are_measured_in_ordinary_processes(monkeypatch):
    for name in settings_of_malloc()[0]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(isolated, "_figures", settings_of_malloc)
    assert isolated.measure_isolated(cases.CASES["small"], 0.01, None).forward == []


def test_extra_memory_counts_buffers_that_were_kept():
    step = workloads.Mix(partial(topologies.line_both_ways, 16_384), heads=16).build().forward
    step()
    assert memory.extra_memory(step) >= 4 * 16_384 * 16 * 64


def test_functions_take_turns_after_a_first_call(monkeypatch):
    monkeypatch.setattr(measure, "TURN", 0)
    calls = []
    timings = measure.take_turns([lambda: calls.append("work"), lambda: calls.append("baseline")], seconds=0.001)
    assert calls == ["work", "baseline"] * (len(calls) // 2)
    assert {t.rounds for t in timings} == {len(calls) // 2 - 1}
    assert timings[0].rounds >= measure.MIN_ROUNDS


def test_the_time_is_bounded_where_a_call_is_slow(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(measure, "perf_counter", lambda: next(clock))  # a second for each look at the clock
    (timing,) = measure.take_turns([lambda: None], seconds=0.5)
    assert timing == measure.Timing(best=1, median=1, rounds=1)


def test_short_calls_are_repeated_in_a_turn(monkeypatch):
    calls, now = [], iter(k / 8 for k in range(1000))
    monkeypatch.setattr(measure, "perf_counter", lambda: next(now))
    monkeypatch.setattr(measure, "TURN", 0.5)
    timings = measure.take_turns([lambda: calls.append("work"), lambda: calls.append("baseline")], seconds=1)
    assert calls[2:10] == ["work"] * 4 + ["baseline"] * 4
    assert {(t.best, t.median) for t in timings} == {(1 / 8, 1 / 8)}


class Fake:
    """A workload whose steps only count."""

    def __init__(self):
        self.calls = {"forward": 0, "forward_backward": 0}

    def build(self):
        return self

    def forward(self):
        self.calls["forward"] += 1

    def forward_backward(self):
        self.calls["forward_backward"] += 1


@pytest.mark.parametrize("forward_only", [True, False])
def test_a_case_is_measured_forward_and_backward(forward_only, monkeypatch):
    monkeypatch.setattr(measure, "TURN", 0)
    work, baseline = Fake(), Fake()
    case = cases.Case("fake", "nothing", "nothing", work, baseline, 1e9, 1e-9, forward_only=forward_only)
    result = measure.measure(case, seconds=0.002)
    assert work.calls == baseline.calls
    assert result.forward.met is True
    assert work.calls["forward"] > measure.MIN_ROUNDS
    assert (result.backward is None) == forward_only == (work.calls["forward_backward"] == 0)


@pytest.mark.parametrize(
    ("work", "millions"),
    [
        (model_workloads.ImageStep("chimera", 224), 88),
        (model_workloads.ImageStep("vit", 224), 86.6),
        (model_workloads.TextStep("chimera", 128), 110),
        (model_workloads.TextStep("bert", 128), 109.5),
    ],
)
def test_whole_models_are_as_large_as_their_names_say(work, millions):
    with torch.device("meta"):
        model = work.model()
    assert model.num_parameters() == pytest.approx(millions * 1e6, rel=0.02)


def result(forward, backward, name="small"):
    def compare(ratio, target):
        return measure.TimeRatio(measure.Timing(ratio, ratio, 3), measure.Timing(1.0, 1.0, 3), target)

    case = cases.CASES[name]
    return measure.Result(
        case, compare(forward, case.forward), None if case.forward_only else compare(backward, case.backward)
    )


def test_cells_show_ratios_targets_and_verdicts():
    (row,) = table.rows([result(1 / 7.2, 4.0)])
    assert len(row) == len(table.HEADER)
    assert row[2:6] == ("0.14 (1/7.2) ✓", "3", "4.00 ✗", "3")
    assert table.rows([result(1.0, 1.0, "model-shape")])[0][2:6] == ("1.00", "–", "1.00", "–")
    assert table.rows([result(1 / 50, 0.0, "molecules-mask")])[0][2:6] == ("0.02 (1/50.0) ✓", "1/40", "–", "–")
    assert [table.target_text(t) for t in (0.95, 1 / 6.5, 10)] == ["0.95", "1/6.5", "10"]


def test_the_page_says_which_targets_are_missed():
    def page(*results, picture=None):
        return report.as_page(report.BenchmarkRun("chimera bench", 2, 6.0, results, [], {"torch": "2"}), picture)

    assert "All 2 targets are met." in page(result(1.0, 1.0))
    text = page(result(1.0, 6.0), picture="scaling.png")
    assert "1 of 2 targets are met. Missed:" in text
    assert "- `small`, forward + backward: 6.00, target 3, 2.0 × too slow" in text
    assert "](scaling.png)" in text


# What is measured


def test_every_case_is_registered_by_its_name():
    assert len(cases.CASES) == 12
    assert cases.pick(None) == list(cases.CASES.values())
    assert [case.name for case in cases.pick(["small", "grid-14"])] == ["grid-14", "small"]


def test_whole_models_are_measured_if_asked_for():
    images = ["image-224", "image-512", "image-1024"]
    texts = ["text-128", "text-1024", "text-4096", "text-16384"]
    assert [case.name for case in cases.pick(None, models=True)][-7:] == [*images, *texts]
    assert [case.name for case in cases.pick(["image-512"])] == ["image-512"]
    assert [case.name for case in cases.pick(["small"], models=True)] == ["small", *images, *texts]
    assert all(case.memory != case.forward_only for case in cases.MODELS.values())


def test_a_group_is_measured_if_asked_for():
    assert [case.name for case in cases.pick(["mamba2"])] == list(cases.MAMBA2)
    assert [case.name for case in cases.pick(["mamba2-step", "small"])] == ["small", "mamba2-step"]
    with pytest.raises(ValueError, match="unknown case 'mamba3', did you mean 'mamba2'"):
        cases.pick(["mamba3"])


def test_mamba2_scans_agree():
    ours, theirs = (mamba_workloads.MambaScan(own, 40, 4, 2).build() for own in (True, False))
    for found, expected in zip(ours.function(), theirs.function(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    grads = [torch.autograd.grad(steps.function(), steps.leaves, steps.gradient) for steps in (ours, theirs)]
    for found, expected in zip(*grads, strict=True):
        assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
    ours.forward_backward()


def test_mamba2_models_agree(monkeypatch):
    whole = mamba_workloads.mamba2_model
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_heads": 8, "head_dim": 8, "state_size": 16}
    monkeypatch.setattr(mamba_workloads, "mamba2_model", lambda ours: whole(ours, **small))
    ours, theirs = (mamba_workloads.MambaModel(own, 24).build() for own in (True, False))
    assert ours.function().item() == pytest.approx(theirs.function().item(), rel=1e-5)
    with torch.no_grad():
        assert ours.function().item() == pytest.approx(theirs.function().item(), rel=1e-5)
    ours.forward_backward()
    with torch.no_grad():
        steps = [mamba_workloads.MambaStep(own).build().function() for own in (True, False)]
    torch.testing.assert_close(*steps, rtol=1e-4, atol=1e-4)


def test_a_training_step_has_a_loss_and_all_gradients(monkeypatch):
    chosen = {}

    def small(name, **sizes):
        chosen["name"] = name
        return baselines.image_classifier("chimera", hidden_size=16, num_hidden_layers=1, patch_size=16, **sizes)

    monkeypatch.setattr(chimera_ssm, "create_model", small)
    steps = model_workloads.ImageStep("chimera", 32, batch=2).build()
    assert chosen["name"] == "chimera_image_base"
    assert steps.function().dim() == 0
    steps.forward_backward()


@pytest.mark.parametrize("mixer", ["chimera", "bert"])
def test_a_text_step_has_a_loss_and_all_gradients(mixer, monkeypatch):
    def small(which, **sizes):
        sizes |= {"hidden_size": 16, "num_hidden_layers": 1, "num_heads": 2, "state_size": 4}
        return build("chimera" if which == "chimera_text_base" else which, **sizes)

    build = baselines.text_model
    monkeypatch.setattr(chimera_ssm, "create_model", small)
    monkeypatch.setattr(baselines, "text_model", small)
    steps = model_workloads.TextStep(mixer, 24, batch=2).build()
    assert steps.function().item() == pytest.approx(math.log(30_522), rel=0.05)  # nothing is known yet
    steps.forward_backward()


def test_masks_and_dense_inverses_agree():
    def two_molecules():
        return topologies.molecules(2, 20)

    masks, inverse = (
        kind(two_molecules, heads=3).build().function() for kind in (workloads.Masks, workloads.DenseInverse)
    )
    torch.testing.assert_close(masks.view(3, 2, 20, 20).transpose(0, 1).flatten(0, 1), inverse)


@pytest.mark.parametrize("curve", point.CURVES)
def test_workloads_of_the_scaling_plot_have_as_many_nodes_as_said(curve):
    steps = point.workload(curve, 32).build()
    assert steps.function().shape[-3:] == steps.gradient.shape[-3:] == (12, 32, 64)
    steps.forward_backward()


def test_shared_sets_are_the_same_tensors():
    mix = workloads.Mix(lambda: topologies.grid_dags(2, 3), heads=2, state_size=4, head_size=4, sets=(0, 1, 1, 0))
    assert len(mix.build().leaves) == 4 + 4 + 2 + 2 + 1


def test_a_curve_ends_where_the_next_point_would_take_too_long(monkeypatch):
    taken = {256: 0.1, 512: 0.4, 1024: 1.6, 2048: 6.4}
    monkeypatch.setattr(scaling, "_measure", lambda c, T, *_: scaling.Point(c, T, taken[T], 1.0))
    points = list(scaling.measure_curve("attention", scaling.ScalingPlan(limit=5.0), threads=1))
    assert [p.num_nodes for p in points] == [256, 512, 1024]


def test_a_point_is_measured_in_a_process_of_its_own():
    (found,) = scaling.measure_curve("attention", scaling.ScalingPlan(sizes=(256,), seconds=0.01), threads=1)
    assert found.seconds > 0
    assert found.bytes > 0


def test_a_point_that_fails_says_why():
    with pytest.raises(ValueError, match=r"no such curve with 256 nodes failed: KeyError: 'no such curve'"):
        list(scaling.measure_curve("no such curve", scaling.ScalingPlan(sizes=(256,)), threads=1))


def test_the_plot_is_drawn(tmp_path):
    plot = pytest.importorskip("chimera_lab.cli.bench.plot")
    points = [scaling.Point(curve, T, T * 1e-4, T * 1e4) for curve in point.CURVES for T in (256, 512)]
    plot.draw(points, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").stat().st_size > 1000
