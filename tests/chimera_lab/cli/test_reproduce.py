"""`chimera reproduce` as typed: a small study from training to its page, and the cost."""

import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from chimera_lab import cli, studies
from chimera_lab.cli.reproduce import cost, duration
from chimera_lab.cli.reproduce.duration import Countdown, in_words
from chimera_lab.planning.synthetic_data import task_without_data
from chimera_lab.studies.study import Row, Section
from tests import browser
from tests.chimera_lab.test_studies import RECIPE, study


def test_the_list(capsys):
    assert cli.main(["reproduce"]) == 0
    printed = capsys.readouterr().out
    for name in ("glue", "imagenet", "topology", "lrgb", "truncation", "sharing", "layers", "cost", "long-range"):
        assert f"  {name}:" in printed


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["topolgy"], "unknown table or study 'topolgy', did you mean 'topology'?"),
        (["nothing"], "unknown table or study 'nothing'; there are: glue, imagenet, topology, "),
        (["nothing"], "layers, cost, images"),
        (["cots"], "did you mean 'cost'?"),
        (["--scale", "paper"], "name a table or study, or for a list of them leave --scale, --out out"),
        (["images", "--jobs", "0"], "--jobs must be at least 1, found 0"),
        (["images", "--scale", "paper"], "images is a study of one scale"),
        (["cost", "--data", "x"], "leave --data out"),
        (["cost", "--jobs", "0", "--checkpoint-every", "5"], "leave --jobs, --checkpoint-every out"),
    ],
)
def test_mistakes(argv, message, capsys, tmp_path):
    assert cli.main(["reproduce", *argv, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_a_study_becomes_a_report_a_page_and_figures(monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(
        studies, "all_studies", lambda: {"tiny": study(learning_rates=(), recipe=replace(RECIPE, log_every=1))}
    )
    argv = ["reproduce", "tiny", "--out", str(tmp_path), "--jobs", "2", "--docs", str(tmp_path / "docs" / "tiny.md")]
    assert cli.main(argv) == 0, capsys.readouterr().err
    text = (tmp_path / "tiny.md").read_text(encoding="utf-8")
    assert (tmp_path / "docs" / "tiny.md").read_text(encoding="utf-8") == text
    assert text.startswith("# Tiny\n\ntiny\n\nMeasured by `chimera reproduce tiny`")
    found = json.loads((tmp_path / "tiny.json").read_text(encoding="utf-8"))
    assert [*found["tiny"]] == ["Chimera", "ViT"]
    page = (tmp_path / "tiny.html").read_text(encoding="utf-8")
    assert page.count('class="chart"') == page.count('class="map"') == 1
    assert "<code>chimera reproduce tiny</code>" in page
    if browser.PROGRAM is not None:
        window = browser.Browser(tmp_path / "profile", width=390)
        try:
            window.open(tmp_path / "tiny.html")
            assert window.run("document.documentElement.scrollWidth <= innerWidth")
            assert window.troubles == []
        finally:
            window.close()


def test_a_run_that_diverges_is_a_row_of_the_report(monkeypatch, tmp_path, capsys):
    rows = Row("Chimera", {"lr": 1e30, "clip": 0.0}), Row("ViT", {"mixer": "vit"})
    evaluations = {"larger": {"image_size": 12}}
    tiny = study(learning_rates=(), sections=(Section("Mixers", rows, ("ViT", "Chimera"), evaluations),))
    monkeypatch.setattr(studies, "all_studies", lambda: {"tiny": tiny})
    for _ in range(2):  # the second time nothing is trained
        assert cli.main(["reproduce", "tiny", "--out", str(tmp_path), "--jobs", "2"]) == 0, capsys.readouterr().err
        assert "image/digits, chimera, seed-0: diverged" in capsys.readouterr().err
        assert "| Chimera (diverged) | – | – |" in (tmp_path / "tiny.md").read_text(encoding="utf-8")
    found = json.loads((tmp_path / "tiny.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert found["tiny"]["Chimera"]["figures"]["test"]["top1"] == [None]
    log = (tmp_path / "tiny" / "chimera" / "seed-0" / "log.txt").read_text(encoding="utf-8")
    assert log.count("training diverged") == 1


def test_a_dry_run_trains_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(studies, "all_studies", lambda: {"tiny": study()})
    assert cli.main(["reproduce", "tiny", "--out", str(tmp_path), "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "2 models, 4 training runs, 2 evaluations" in printed
    assert "4 training runs are left, about" in printed
    assert not (tmp_path / "tiny").exists()
    assert cli.main(["reproduce", "tiny", "--out", str(tmp_path), "--dry-run", "--section", "Again"]) == 0
    assert "1 models, 2 training runs" in capsys.readouterr().out
    both = ["--section", "again", "--section", "Mixers"]
    assert cli.main(["reproduce", "tiny", "--out", str(tmp_path), "--dry-run", *both]) == 0
    printed = capsys.readouterr().out
    assert "2 models, 4 training runs" in printed
    assert "sections for --section, with the number of models: 'Mixers' 2, 'Again' 1" in printed


@pytest.mark.parametrize(("load", "warns"), [(0.1, False), (1000.0, True)])
def test_a_busy_machine_makes_the_estimate_too_high(load, warns, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    monkeypatch.setattr(duration, "expected_seconds", lambda *_: {tmp_path: 60.0})
    duration.announce("tiny", study(), tmp_path)
    assert ("the estimate may be several times too high" in capsys.readouterr().out) == warns


def test_sections_are_found_by_name(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(studies, "all_studies", lambda: {"tiny": study()})
    assert cli.main(["reproduce", "tiny", "--dry-run", "--section", "Mixer"]) == 2
    assert "unknown section 'Mixer', did you mean 'Mixers'?" in capsys.readouterr().err


def test_countdown(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(duration, "monotonic", lambda: now[0])
    countdown = Countdown({Path("a"): 60.0, Path("b"): 60.0, Path("c"): 600.0})
    assert in_words(countdown.total) == "12 min"
    assert countdown.finish(Path("elsewhere")) == ""
    now[0] = 120.0  # twice as long as expected
    assert countdown.finish(Path("a")) == "run 1 of 3, about 22 min left"
    now[0] = 240.0
    assert countdown.finish(Path("b")) == "run 2 of 3, about 20 min left"
    assert countdown.finish(Path("c")) == "run 3 of 3"
    assert in_words(4 * 3600 + 61) == "4 h 2 min"


def test_a_study_that_is_under_way_is_not_begun_again(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(studies, "all_studies", lambda: {"tiny": study()})
    (tmp_path / "tiny").mkdir()
    with FileLock(tmp_path / "tiny" / ".lock"):
        assert cli.main(["reproduce", "tiny", "--out", str(tmp_path)]) == 2
    assert "tiny is in use by another process: wait until it ends" in capsys.readouterr().err


def test_a_terminated_study_ends_its_runs_and_can_go_on(monkeypatch, tmp_path, capsys):
    endless = study(learning_rates=(), recipe=replace(RECIPE, epochs=100_000, log_every=1))
    monkeypatch.setattr(studies, "all_studies", lambda: {"endless": endless})
    logs = {name: tmp_path / "endless" / name / "seed-0" / "log.txt" for name in ("chimera", "vit")}

    def terminate_once_they_train():
        while not all((log.parent / "metrics.csv").exists() for log in logs.values()):
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=terminate_once_they_train, daemon=True).start()
    assert cli.main(["reproduce", "endless", "--out", str(tmp_path), "--jobs", "2"]) == 130
    assert "the same command continues from here" in capsys.readouterr().err
    for log in logs.values():
        assert "continue with: chimera train --resume" in log.read_text(encoding="utf-8")


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_baselines_are_as_large(scale):
    for what, recipes in cost.pairs(scale).items():
        sizes = []
        for recipe in recipes:
            task = task_without_data(recipe)
            task.train_samples()
            with torch.device("meta"):
                model = task.build_model(recipe)
            sizes.append(sum(p.numel() for p in model.parameters()))
        assert sizes[1] == pytest.approx(sizes[0], rel=0.033), what


def test_a_folder_that_cannot_be_made_is_named_before_measuring(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(cost, "pairs", None)
    (tmp_path / "file").touch()
    assert cli.main(["reproduce", "cost", "--out", str(tmp_path / "file")]) == 2
    assert f"File exists: '{tmp_path / 'file'}'" in capsys.readouterr().err


def test_cost(monkeypatch, tmp_path, capsys):
    ours, theirs = cost.pairs("laptop")["images, ViT"]
    small = {"num_hidden_layers": 1, "hidden_size": 16, "num_heads": 2}
    monkeypatch.setattr(cost, "pairs", lambda scale: {"images": (replace(ours, **small), replace(theirs, **small))})
    monkeypatch.setattr(cost, "_SECONDS", {"laptop": 0.1})
    assert cli.main(["reproduce", "cost", "--out", str(tmp_path)]) == 0
    ratio = json.loads((tmp_path / "cost.json").read_text())["images"]["ratio"]
    assert f"| {ratio:.2f} | 1.5 | {ratio - 1.5:+.2f} |" in (tmp_path / "cost.md").read_text(encoding="utf-8")
    assert '<td data-column="paper">1.5</td>' in (tmp_path / "cost.html").read_text(encoding="utf-8")
