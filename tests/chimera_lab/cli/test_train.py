"""The commands train, eval and list, as typed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from chimera_lab import cli
from chimera_lab.training.fit import latest_checkpoint
from chimera_lab.training.run import open_run

SMALL = [
    "--hidden-size", "16", "--num_hidden_layers=1", "--patch-size", "2", "--state-size", "4", "--num-heads", "2",
    "--train-limit", "64", "--epochs", "2", "--batch-size", "32", "--betas", "0.9,0.99", "--flip", "yes",
    "--accelerator", "cpu",
]  # fmt: skip


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CHIMERA_RUN_FOLDER", raising=False)
    yield
    os.environ.pop("CHIMERA_RUN_FOLDER", None)


def test_train_then_eval(capsys):
    assert cli.main(["train", "image/digits", *SMALL, "--out", "run"]) == 0
    out, err = capsys.readouterr()
    assert "run folder: run" in out
    assert "model (averaged weights): run/model" in out
    assert "step 4/4" in err
    run = open_run(Path("run"))
    assert (run.recipe.betas, run.recipe.flip, run.recipe.num_hidden_layers) == ((0.9, 0.99), True, 1)
    assert cli.main(["eval", "run"]) == 0
    out = capsys.readouterr().out
    assert "image/digits, finished, after step 4: test data, 449 samples" in out
    assert f"{run.result['metrics']['top1_ema']:.4f}" in out
    assert cli.main(["eval", str(latest_checkpoint(run)), "--image-size", "16"]) == 0
    assert "averaged" in capsys.readouterr().out
    for argv, message in [
        (
            ["train", "image/digits", *SMALL, "--out", "run"],
            "run holds a run already: continue it with chimera train --resume run",
        ),
        (["train", "--resume", "run"], "run is finished: look at it with chimera eval run"),
        (["eval", "run", "--image-size", "15"], "image_size 15 must be a multiple of patch_size, found 2"),
        (["eval", "run", "--data", "nowhere"], "there is no data set and no folder 'nowhere'"),
    ]:
        assert cli.main(argv) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"chimera {argv[0]}: error: ")
        assert err.count("\n") == 1
        assert message in err


@pytest.mark.parametrize("rank", ["0", "1"])
def test_processes_of_one_run_need_a_common_folder(monkeypatch, capsys, rank):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", rank)
    assert cli.main(["train", "image/digits", *SMALL]) == 2
    assert "2 processes were started for one run: name the folder that they share with --out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["train"], "which recipe? for example: chimera train image/digits"),
        (["train", "image/digit"], "unknown recipe 'image/digit', did you mean 'image/digits'?"),
        (["train", "--devices", "2", "image/digit"], "unknown recipe 'image/digit', did you mean 'image/digits'?"),
        (["train", "--devices", "2"], "which recipe? for example: chimera train image/digits"),
        (["train", "nothing", "--out", "text/c4"], "unknown recipe 'nothing'"),
        (["train", "image/digits", "--scale", "paper"], "image/digits exists at the scale laptop only"),
        (["train", "image/digits", "--scale=paper"], "image/digits exists at the scale laptop only"),
        (["train", "image/digits", "--data", "/nowhere"], "there is no data set and no folder '/nowhere'"),
        (["train", "image/digits", "--batch-size", "4000"], "a batch has 4000 samples, but there are only 1348"),
        (["train", "image/digits", "--micro-batch", "5"], "make micro_batch a divisor of 64"),
        (["train", "image/digits", "--strategy", "fsdp", "--accelerator", "cpu"], "strategy fsdp needs GPUs"),
        (["train", "image/digits", "--hidden-size", "1e9"], "would take more than 8,589,934,592.0 GiB of memory"),
        (["train", "image/digits", "--state-size", "1e9"], "layers.0.mixer.in_proj.weight, 4,000,000,264 × 64"),
        (["train", "image/digits", "--num-hidden-layers", "1e9"], "parameters, of which"),
        (["train", "image/digits", "--image-size", "100000"], "the hidden states of 64 samples would take at least"),
        (["train", "--resume", "nowhere"], "nowhere is not a run: it has no config.yaml"),
        (["train", "image/digits", "--resume", "nowhere"], "leave RECIPE, --scale and --out out"),
        (["eval", "nowhere"], "nowhere is not a run: it has no config.yaml"),
        (["list", "image/nothing"], "unknown recipe 'image/nothing'"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(argv, message, capsys, tmp_path):
    assert cli.main(argv) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.txt", b"", ["text/pydoc"], "a.txt is empty: remove it, or write text into it"),
        ("a.txt", b"caf\xe9 \n", ["text/pydoc"], "a.txt is not UTF-8 text: line 1 has the byte 0xe9"),
        ("a.jsonl", b'{"body": "one"}\n', ["text/pydoc"], "a.jsonl has no 'text', but 'body'; name the one with"),
        ("train.tsv", b"sentence\tlabel\none\t2\n", ["text/glue-sst2", "--from", "."], "found '2' in line 2"),
        ("train.tsv", b"text\tlabel\none\t1\n", ["text/glue-sst2", "--from", "."], "has no column 'sentence', but"),
    ],
)  # fmt: skip
def test_bad_texts_are_one_line(name, content, options, message, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / name).write_bytes(content)
    data = tmp_path if name.endswith(".tsv") else tmp_path / name
    assert cli.main(["train", *options, "--data", str(data), "--out", "run"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert sum("error" in line for line in err.splitlines()) == 1
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lrr", "1"], "unknown option --lrr, did you mean --lr?"),
        (["--learning-rate", "1"], "unknown option --learning-rate, did you mean --lr?"),
        (["--num_train_epochs=3"], "unknown option --num_train_epochs, did you mean --epochs?"),
        (["--hidden_sise=3"], "unknown option --hidden_sise, did you mean --hidden_size?"),
        (["--epoch", "3"], "unknown option --epoch, did you mean --epochs?"),
        (["--lr", "fast"], "lr must be a finite number, found 'fast'"),
        (["--lr", "inf"], "lr must be a finite number, found inf"),
        (["--weight-decay", "nan"], "weight_decay must be a finite number, found nan"),
        (["--ema", "2"], "ema must be below 1, found 2.0"),
        (
            ["--mixer", "attention"],
            "mixer must be one of chimera, s4, hyena, vit, vit_conv, s4_vit, hyena_vit, found 'attention'",
        ),
    ],
)
def test_settings_that_do_not_exist_or_fit_are_refused(options, message, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["train", "image/digits", *options])
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") < 5


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--resume", "run", "--epochs", "8"], "--epochs: the settings of a run are fixed, and --resume continues it"),
        (
            ["--resume=run", "--lr=1"],
            "unknown option --lr: the settings of a run are fixed, .* new run, chimera",
        ),
        (["--resume", "run", "--devics", "2"], "unknown option --devics, did you mean --devices\\?\n"),
        (["image/digits", "--nothing", "2"], "unknown option --nothing\n"),
    ],
)
def test_options_of_a_resumed_run(argv, message, capsys):
    with pytest.raises(SystemExit):
        cli.main(["train", *argv])
    assert re.search(message, capsys.readouterr().err)


def test_help_lists_the_recipes_settings(capsys):
    with pytest.raises(SystemExit):
        cli.main(["train", "--lr", "1e-4", "image/imagenet", "--help"])
    out = capsys.readouterr().out
    assert "settings of image/imagenet" in out
    for words in ("--warmup-epochs", "epochs of linear warm-up (10)", "β₁ and β₂ of AdamW (0.9,0.999)", "--devices"):
        assert words in out


def test_list_shows_recipes_models_and_settings(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert cli.main(["list"]) == 0
    out = capsys.readouterr().out
    for words in ("image/digits", "image/imagenet", "laptop", "paper", "chimera_image_base", "89.4M", "6.9k"):
        assert words in out
    assert cli.main(["list", "image/imagenet", "--scale", "paper"]) == 0
    out = capsys.readouterr().out
    for words in ("randaugment_magnitude", "0.99996", "1024"):
        assert words in out


def test_an_interruption_says_how_to_resume(monkeypatch, capsys):
    from chimera_lab.training import fit
    from chimera_lab.training.stopping import Interrupted

    def stop(*_):
        raise Interrupted("stopped after step 3 of 9; continue with: chimera train --resume runs/x")

    monkeypatch.setattr(fit, "train", stop)
    assert cli.main(["train", "image/digits"]) == 130
    err = capsys.readouterr().err
    assert err == "chimera train: stopped after step 3 of 9; continue with: chimera train --resume runs/x\n"


def test_a_misspelled_recipe_is_refused_before_training_is_loaded():
    code = (
        "import sys\nfrom chimera_lab.cli import main\nmain(['train', 'image/nothing'])\n"
        "assert not {'lightning', 'torch_geometric', 'datasets', 'torchmetrics'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_steps_in_place_of_epochs(capsys):
    place = SMALL.index("--epochs")
    argv = [*SMALL[:place], *SMALL[place + 2 :], "--steps", "3", "--out", "run"]
    assert cli.main(["train", "image/digits", *argv]) == 0
    run = open_run(Path("run"))
    assert (run.recipe.steps, run.recipe.epochs, run.result["steps"]) == (3, 0, 3)


def test_a_run_finds_its_data_from_any_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("words.txt").write_text("the cat sat on the mat and the dog lay on the rug\n" * 200)
    small = ["--length", "16", "--hidden-size", "16", "--num-hidden-layers", "1", "--vocab-size", "100"]
    argv = ["text/pydoc", "--data", "words.txt", "--steps", "2", "--batch-size", "4", *small, "--out", "run"]
    assert cli.main(["train", *argv]) == 0
    assert open_run(Path("run")).recipe.data == str(tmp_path / "words.txt")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert cli.main(["eval", "../run"]) == 0
    (tmp_path / "words.txt").rename("moved.txt")
    (tmp_path / "run" / "result.json").unlink()
    assert cli.main(["train", "--resume", "../run"]) == 2
    assert cli.main(["train", "--resume", "../run", "--data", "moved.txt"]) == 0
    assert cli.main(["eval", "../run", "--data", "moved.txt"]) == 0
    assert "test data" in capsys.readouterr().out
    Path("moved.txt").write_text("the dog sat on the rug and the cat lay on the mat\n" * 200)
    (tmp_path / "run" / "result.json").unlink()
    assert cli.main(["train", "--resume", "../run", "--data", "moved.txt"]) == 2
    assert "have changed since the run began" in capsys.readouterr().err
