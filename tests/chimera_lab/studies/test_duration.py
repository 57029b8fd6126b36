"""How long a study takes: every run is counted, in proportion to its steps."""

from dataclasses import replace

import pytest

from chimera_lab.studies.duration import expected_seconds
from tests.chimera_lab.test_studies import RECIPE, study


def test_every_run_takes_time_in_proportion_to_its_steps(tmp_path, monkeypatch):
    monkeypatch.setattr("chimera_lab.studies.duration._seconds_per_step", lambda recipe: 2.0)
    recipe = replace(RECIPE, train_limit=None)
    value = study(recipe=recipe, learning_rates=(1e-3, 1e-2), validation=0.5, seeds=3)
    seconds = expected_seconds(value, tmp_path)
    runs = {
        f"{row}/{run}"
        for row in ("chimera", "vit")
        for run in ("lr-0.001", "lr-0.01", *map("seed-{}".format, range(3)))
    }
    assert {str(path.relative_to(tmp_path)) for path in seconds} == runs
    whole, held_out = seconds[tmp_path / "vit" / "seed-0"], seconds[tmp_path / "vit" / "lr-0.001"]
    epochs = value.recipe.epochs
    assert whole % (2 * epochs) == 0
    assert held_out == pytest.approx(whole / 2, rel=0.1)


def test_a_step_is_measured(tmp_path):
    seconds = expected_seconds(study(learning_rates=()), tmp_path)
    assert all(0 < time < 60 for time in seconds.values())


def test_finished_runs_are_not_measured(tmp_path, monkeypatch):
    value, measured = study(learning_rates=(), seeds=2), []
    monkeypatch.setattr("chimera_lab.studies.duration._seconds_per_step", lambda r: measured.append(r.mixer) or 1.0)
    for run in ("chimera/seed-0", "chimera/seed-1", "vit/seed-1"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "result.json").touch()
    assert [*expected_seconds(value, tmp_path)] == [tmp_path / "vit" / "seed-0"]
    assert measured == ["vit"]
