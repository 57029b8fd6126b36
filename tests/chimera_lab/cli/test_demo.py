"""The demo and `chimera show`, as typed, on models that train in seconds."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from chimera_lab import cli
from chimera_lab.cli import demo
from chimera_lab.cli.demo import comparisons, maze, maze_picture, report, speed
from chimera_lab.training.kinds import count_parameters
from tests import browser

SMALL = {"num_hidden_layers": 1, "state_size": 4, "num_heads": 2, "epochs": 1}
TINY = {
    "words": SMALL | {"hidden_size": 32, "train_limit": 32},
    "mazes": SMALL | {"hidden_size": 64, "train_limit": 64},
    "molecules": SMALL | {"hidden_size": 64, "train_limit": 64},
}
SPEEDS = [{"what": "a line", "against": "attention", "forward": 0.1, "backward": 2.5}]


@pytest.fixture
def small(monkeypatch):
    made = tuple(replace(c, changes={**c.changes, **TINY[c.name]}) for c in comparisons.COMPARISONS)
    for name in ("_CANDIDATES", "_CHOOSING", "_MEASURING"):
        monkeypatch.setattr(maze, name, 5)
    for module in (comparisons, report):
        monkeypatch.setattr(module, "COMPARISONS", made)
    monkeypatch.setattr(speed, "measure_once", lambda path: SPEEDS)
    return made


def test_the_best_of_each_comparison_stands_out():
    figures = {"mazes": (0.9, 0.7), "words": (0.4, 0.4), "molecules": (7.0, 6.0)}  # two shares and an error
    found = []
    for c in comparisons.COMPARISONS:
        runs = {str(k): SimpleNamespace(result={"metrics": {c.metric: f}}) for k, f in enumerate(figures[c.name])}
        found.append(report.best(c, runs))
    assert found == [{0}, {0, 1}, {1}]


def test_influence_that_follows_paths_separates_the_cells():
    free = np.array([1, 1, 0, 1, 0, 1, 0, 0, 0], bool)
    three = maze.Maze(0, torch.zeros(3, 3, 3), free, (0, 1), np.array([1, 1, 0, 1, 0, 0, 0, 0, 0], bool))
    assert maze.separation(np.array([9, 3, 0, 2, 0, 1, 0, 0, 0]), three) == 1
    assert maze.separation(np.array([9, 0, 0, 0, 0, 0, 0, 0, 0]), three) == 0.5
    assert maze.separation(np.array([9, 1, 0, 3, 0, 2, 0, 0, 0]), three) == 0.5
    assert maze.separation(np.array([9, 1, 0, 1, 0, 2, 0, 0, 0]), three) == 0
    assert three.connected
    one = maze.Maze(1, three.pixels, free, (0, 1), free)
    assert maze.separation(np.arange(9.0), one) is None
    picture = maze_picture.figure(three, [maze.Panel("a", 0, 0, np.full(9, 1 / 9), 0.5, "")])
    assert picture.count("data-share") == 9
    assert picture.count('class="ring"') == 2


def test_the_demo_from_interruption_to_report(small, tmp_path, capsys, monkeypatch):
    from chimera_lab.training import fit
    from chimera_lab.training.stopping import Interrupted

    out, train, done = tmp_path / "demo", fit.train, []

    def stop_at_the_third(run, checkpoint):
        if len(done) == 2:
            done.append(None)
            raise Interrupted
        done.append(run.folder)
        return train(run, checkpoint)

    monkeypatch.setattr(fit, "train", stop_at_the_third)
    argv = ["demo", "--out", str(out)]
    assert cli.main(argv) == 130
    assert "the same command continues from here" in capsys.readouterr().err
    assert not (out / "report.html").exists()
    assert cli.main(argv) == 0
    printed = capsys.readouterr().out
    assert printed.count("trained already") == 2
    assert "ChimeraForMaskedLM.from_pretrained" in printed
    assert f'chimera show {out / "words" / "chimera"} "return a copy of the [MASK]' in printed
    for name in ("mazes/no-paths", "words/bert", "molecules/gps"):
        assert (out / name / "result.json").exists()
    for run in (folder for folder in done if folder is not None):
        assert (run / "model" / "model.safetensors").exists()
    page = (out / "report.html").read_text(encoding="utf-8")
    for words in ("BERT", "ViT", "GPS", "L = I", "0.1 (1/10.0)", "2.50", "ChimeraForGraphs.from_pretrained"):
        assert words in page
    assert page.count('class="map"') == page.count('class="chart"') == 3
    assert page.count('class="bold"') >= 3
    assert page.count("data-share=") == 400  # four pictures of a maze of 10 × 10 cells
    for true in ("true word", "63.6 Å²", "True answer: "):
        assert true in page
    _check_in_a_browser(out / "report.html", tmp_path / "profile")
    _show(out, tmp_path, capsys)
    monkeypatch.setattr(comparisons, "COMPARISONS", (replace(small[0], changes={**small[0].changes, "epochs": 2}),))
    assert cli.main(argv) == 2
    assert "other settings" in capsys.readouterr().err


def _check_in_a_browser(path, profile):
    if browser.PROGRAM is None:
        return
    window = browser.Browser(profile, width=390)
    try:
        window.open(path)
        assert window.run("document.documentElement.scrollWidth <= innerWidth")
        assert window.run("document.querySelector('[data-share]').getAttribute('fill')").startswith("rgb(")
        window.point(".pixels:nth-of-type(2) [data-node='11']")
        status = window.run("document.querySelector('.status').textContent")
        assert status.startswith("Influence on pixel (row 1, column 1): ")
        assert window.troubles == []
    finally:
        window.close()


def _show(out, folder, capsys):
    """`chimera show` on the demo's runs: test samples by number, and the files asked for."""
    for name, given in (("words", "3"), ("mazes", "7"), ("molecules", "2")):
        argv = ["show", str(out / name / "chimera"), given, "--out", str(folder / name), "--layer", "0"]
        assert cli.main(argv) == 0
        assert f"wrote {folder / name}.html" in capsys.readouterr().out
        assert (folder / f"{name}.png").stat().st_size > 5_000
    assert cli.main(["show", str(out / "mazes" / "vit"), "--out", str(folder / "x.png")]) == 2
    assert "only Chimera's models" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["show", "nowhere"], "nowhere holds neither a run nor a saved model"),
        (["show", "topology"], "which topology? for example: chimera show topology grid:4x5"),
        (
            ["show", "topology", "grid:2x2", "--layer", "1"],
            "a topology has no layers and heads: leave --layer",
        ),
        (["show", "topology", "cube"], "there is no topology and no file 'cube'"),
        (["show", "topology", "ring:4", "--node", "4"], "--node is the number of one node, 0 to 3"),
        (["show", "topology", "ring:4", "--out", "ring.gif"], ".html and .png are written, not .gif; leave it out for"),
        (["show", "topology", "ring:4", "--out", "."], "--out . is a folder; add a name, such as influence"),
        (["show", "topology", "ring:4", "--out", "no/where.png"], "there is no folder no; create it first"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(argv, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(argv) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_topology_is_shown_in_the_form_asked_for(capsys, tmp_path):
    assert cli.main(["show", "topology", "tree:7", "--out", str(tmp_path / "tree.html")]) == 0
    assert "7 nodes, 12 edges, diameter 4; 2 DAGs" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["tree.html"]


def test_baselines_have_as_many_parameters():
    for comparison in comparisons.COMPARISONS:
        sizes = [count_parameters(recipe) for recipe in comparison.recipes().values()]
        assert sizes[1] == sizes[0]
        assert abs(sizes[2] / sizes[0] - 1) < 0.03, comparison.name


def test_speeds_are_measured_once(tmp_path, monkeypatch):
    from chimera_lab.cli.bench import measure

    monkeypatch.setattr(speed, "CASES", {"small": "a short line"})
    found = speed.measure_once(tmp_path / "speed.json")
    assert found[0]["what"] == "a short line"
    assert found[0]["forward"] > 0
    monkeypatch.setattr(measure, "measure", None)
    assert speed.measure_once(tmp_path / "speed.json") == found
    assert demo.EXAMPLE.startswith("chimera demo")
