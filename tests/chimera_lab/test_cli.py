"""The program `chimera`: quick help, clear errors."""

import resource
import subprocess
import sys

import pytest

import chimera_ssm
from chimera_lab import cli
from chimera_lab.cli.bench import (
    isolated,
)

PROGRAM = "import sys\nfrom chimera_lab.cli import main\n"


def run_python(code, *arguments):
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)


# The program


@pytest.mark.parametrize("command", [None, *cli.COMMANDS])
def test_help_is_quick_and_loads_nothing_heavy(command):
    words = ["--help"] if command is None else [command, "--help"]
    code = PROGRAM + f"try: main({words})\nexcept SystemExit: pass\nprint(*sys.modules)"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = run_python(code).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5  # the CPU's: others may be at work
    assert f"chimera {command or '[-h]'}" in out
    assert not {"torch", "numpy", "numba", "rich", "matplotlib"} & {name.split(".")[0] for name in out.split()}


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_help_with_an_example(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert f"example:\n  chimera {command}" in out


def test_help_of_bench_names_options_and_cases(capsys):
    with pytest.raises(SystemExit):
        cli.main(["bench", "--help"])
    out = capsys.readouterr().out
    for word in ("--quick", "--only", "--threads", "--json", "--plot", "--docs", "molecules-mask", "line-scaling"):
        assert word in out


def test_estimates_for_gpus_are_marked_as_such(capsys):
    pytest.importorskip("triton")
    assert cli.main(["bench", "--gpu-estimate"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Estimates for A100, nothing was measured")
    assert out.count("| backward |") == 5
    assert "grid 14×14" in out


def test_the_list_can_be_of_one_scale(capsys):
    assert cli.main(["list", "--scale", "laptop"]) == 0
    out = capsys.readouterr().out
    assert "image/digits" in out
    assert "image/imagenet" not in out


def test_version(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert chimera_ssm.__version__ in capsys.readouterr().out


@pytest.mark.parametrize("argv", [[], ["benchmark"], ["bench", "--threads", "0"], ["bench", "--threads", "two"]])
def test_bad_usage_is_refused(argv, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--only", "grid14"], "unknown case 'grid14', did you mean 'grid-14'?"),
        (["--only", "small", "molecule"], "did you mean 'molecules'?"),
        (["--json", "nowhere/at/all.json"], "there is no folder nowhere/at"),
        (["--only", "small", "--json", "."], "cannot write .: it is a folder; add the name of a file"),
        (["--plot", "plot.txt"], "--plot draws .png, .svg, .pdf files, found 'plot.txt'"),
    ],
)
def test_errors_are_one_line(argv, message, capsys):
    assert cli.main(["bench", *argv]) == 2
    err = capsys.readouterr().err
    assert err.startswith("chimera bench: error: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(("module", "options"), [("rich", []), ("matplotlib", ["--plot", "plot.png"])])
def test_a_missing_extra_is_named_in_one_line(module, options):
    code = PROGRAM + f"sys.modules[{module!r}] = None\nsys.exit(main(['bench', '--only', 'small', *sys.argv[1:]]))"
    done = run_python(code, *options)
    assert done.returncode == 2
    assert done.stderr == f'chimera bench: error: {module} is missing: pip install "chimera-ssm[train]"\n'


def test_an_interruption_is_one_line(monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(isolated, "measure_isolated", interrupt)
    assert cli.main(["bench", "--only", "small"]) == 130
    assert capsys.readouterr().err.strip().splitlines()[-1] == "chimera bench: interrupted"
