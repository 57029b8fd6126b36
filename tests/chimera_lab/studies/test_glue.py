"""GLUE from a run: all tasks with several seeds in one command, some of them after MNLI."""

import json

import pytest

from chimera_lab import cli
from chimera_lab.data.glue import TASKS
from chimera_lab.studies.glue import glue_studies, glue_table
from chimera_lab.studies.results import RowResult
from chimera_lab.training.run import open_run
from tests.chimera_lab.data.test_glue import FILES, write
from tests.chimera_lab.training.test_glue_task import pretrained


def test_settings_of_the_studies():
    studies = glue_studies("run", TASKS, 5, None, False, data="here")
    assert [*studies] == [*TASKS]
    assert all(study.metrics == TASKS[name].metrics for name, study in studies.items())
    assert {study.recipe.from_ for study in studies.values()} == {"run"}
    after = glue_studies("run", TASKS, 5, None, True)
    assert [*after] == ["cola", "sst2", "qqp", "mnli", "qnli"]
    assert [*after["mnli"].then] == ["rte", "mrpc", "stsb"]


@pytest.mark.parametrize(
    ("tasks", "after_mnli", "message"),
    [
        (["coal"], False, "unknown task 'coal', did you mean 'cola'?"),
        (["rte"], True, "MNLI is to come first, but is not among the tasks: rte"),
    ],
)
def test_bad_tasks(tasks, after_mnli, message):
    with pytest.raises(ValueError, match=message):
        glue_studies("run", tasks, 5, None, after_mnli)


def test_the_average_is_over_the_first_metric_of_each_task():
    def result(**figures):
        return {"fine-tuned": RowResult("fine-tuned", 1, 0.1, {}, {"test": figures}, 1.0)}

    text = glue_table({"mrpc": result(f1=[0.8, 0.9], accuracy=[0.1, 0.1]), "cola": result(matthews=[0.2, 0.5])})
    assert text.splitlines()[-4:] == [
        "| CoLA | matthews | 35.00 ± 21.21 | 2 |",
        "| MRPC | f1 | 85.00 ± 7.07 | 2 |",
        "| MRPC | accuracy | 10.00 ± 0.00 | 2 |",
        "| average of 2 tasks | the first metric of each | 60.00 ± 14.14 | 2 |",
    ]


def test_mistakes(tmp_path, capsys):
    for options, message in (
        ([], "nowhere is neither a run nor a folder with a model"),
        (["--seeds", "0"], "--seeds must be at least 1, found 0"),
    ):
        assert cli.main(["glue", "nowhere", "--out", str(tmp_path), "--tasks", "cola", *options]) == 2
        assert message in capsys.readouterr().err


def test_glue_as_typed(tmp_path, capsys):
    pretrained(tmp_path / "run")
    for name in ("mnli", "rte"):
        write(tmp_path / "data" / TASKS[name].folder, name, train=[*FILES[name][1:]] * 16)
    command = ["glue", str(tmp_path / "run"), "--data", str(tmp_path / "data"), "--tasks", "mnli", "rte"]
    command += ["--seeds", "1", "--train-limit", "none", "--epochs", "1"]
    assert cli.main([*command, "--after-mnli"]) == 0, capsys.readouterr().err
    home = tmp_path / "run" / "glue" / "mnli"
    assert open_run(home / "rte" / "fine-tuned" / "seed-0").recipe.from_ == str(home / "fine-tuned" / "seed-0")
    study = json.loads((home / "rte" / "study.json").read_text())
    assert study["recipes"]["fine-tuned"]["from_"] == "fine-tuned"
    assert (study["recipes"]["fine-tuned"]["epochs"], study["recipes"]["fine-tuned"]["train_limit"]) == (1, None)
    assert "average of 2 tasks" in (tmp_path / "run" / "glue" / "report.md").read_text()
