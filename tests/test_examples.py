"""Every example runs, learns something in a few steps, and stays short."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES, BENCHMARKS = (Path(__file__).parents[1] / name for name in ("examples", "benchmarks"))


def main_of(name, folder=EXAMPLES):
    return runpy.run_path(str(folder / f"{name}.py"))["main"]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path):
    assert len(path.read_text().splitlines()) < 60


def test_python_trees(capsys):
    assert (
        main_of("python_ast")(steps=15, modules=("textwrap", "difflib", "statistics")) > 0.1
    )  # above the most frequent
    assert "step   0: loss" in capsys.readouterr().out


@pytest.mark.slow
def test_video(capsys):
    assert main_of("video")() > 0.5  # a quarter by chance
    assert "guessed" in capsys.readouterr().out


def test_road_network(capsys):
    assert main_of("road_network")(steps=25, towns=8, side=5) > 0  # better than the best constant
    assert "new towns" in capsys.readouterr().out


@pytest.mark.slow
def test_point_cloud(capsys):
    assert main_of("point_cloud")() > 0.45  # a quarter by chance
    assert "new clouds right" in capsys.readouterr().out


def test_own_model(capsys):
    assert main_of("own_model")(steps=15, length=48) < 5.5  # bits; 6 for as many letters without knowing anything
    assert "it writes:\n|     def " in capsys.readouterr().out


@pytest.mark.slow
def test_transformers_trainer(tmp_path, capsys):
    pytest.importorskip("accelerate")
    assert main_of("trainer")(str(tmp_path), steps=40) > 0.25  # a tenth by chance
    assert (tmp_path / "model.safetensors").exists()
    assert "loaded again" in capsys.readouterr().out


def test_mamba2(capsys):
    assert main_of("mamba2")(steps=12, length=96) < 3.6  # 4.6 for as many letters without knowing anything
    out = capsys.readouterr().out
    assert "accelerated 3 × Mamba2Mixer\n  mamba2_chunk_scan → chimera_ssm." in out
    assert "it writes:\ndef mean(" in out


def test_influence_draws(tmp_path):
    main_of("influence")(tmp_path)
    assert (tmp_path / "influence.png").stat().st_size > 10_000


def test_reachability_in_pyg(capsys):
    found = main_of("reachability_pyg", BENCHMARKS)(seeds=1, epochs=8, count=256, tests=40)
    assert found["ChimeraConv"] > max(found["GCNConv"], found["GATv2Conv"]) + 0.2
    sizes = [int(size.replace(",", "")) for size in re.findall(r": ([\d,]+) parameters", capsys.readouterr().out)]
    assert max(sizes) / min(sizes) < 1.03


def test_a_first_trial_in_pyg(capsys):
    main_of("first_trial_pyg", BENCHMARKS)(seeds=1, epochs=(1,))
    found = re.findall(r"^(.*), seed 0: (\d+)$", capsys.readouterr().out, re.MULTILINE)
    assert len(found) == 5
    assert all(35 < int(right) < 100 for _, right in found)  # half of them by chance


def test_mazes_in_transformers(capsys):
    pytest.importorskip("accelerate")
    main_of("mazes_transformers", BENCHMARKS)(mazes=64, tests=20)
    sizes = [int(size.replace(",", "")) for size in re.findall(r": ([\d,]+) parameters", capsys.readouterr().out)]
    assert len(sizes) == 2
    assert max(sizes) / min(sizes) < 1.03
