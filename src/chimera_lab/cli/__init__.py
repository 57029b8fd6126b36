"""The `chimera` program.

A command is an entry of `COMMANDS` and a package of that name in this folder, which is imported only when the command
is chosen. Its ``__init__`` declares the options (``EXAMPLE`` and ``add_arguments(parser, argv)``) and imports nothing
heavy; its module ``run`` executes the command (``run(args)``).
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import threading
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from chimera_ssm.errors import missing_extra
from chimera_ssm.version import __version__

COMMANDS = {
    "demo": "train Chimera and baselines on mazes, words and molecules, and draw the influence between nodes",
    "list": "list recipes and models",
    "train": "train a recipe, or resume a run",
    "eval": "evaluate a run on its test data, or on other data",
    "predict": "predict unlabelled images, texts or molecules with a trained model",
    "glue": "fine-tune a text model on the GLUE tasks with several seeds, and average the scores",
    "plan": "estimate time, memory and cost of a recipe on GPUs, and print the command that starts it there",
    "show": "draw the influence between pixels, words or atoms in a trained model, or draw a topology",
    "reproduce": "train and compare the models of a table of the paper, or of another study",
    "bench": "measure speed and memory against attention and other baselines",
}

#: Options that other programs have, and what they are called here.
_SYNONYMS = {
    "--learning-rate": "--lr",
    "--num-epochs": "--epochs",
    "--num-train-epochs": "--epochs",
    "--max-steps": "--steps",
    "--output": "--out",
    "--output-dir": "--out",
    "--dataset": "--data",
    "--data-dir": "--data",
    "--width": "--hidden-size",
    "--dim": "--hidden-size",
    "--num-layers": "--num-hidden-layers",
    "--layers": "--num-hidden-layers",
    "--depth": "--num-hidden-layers",
    "--heads": "--num-heads",
    "--per-device-train-batch-size": "--batch-size",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, 2 for a user error, 130 for an interruption (Ctrl-C or SIGTERM)."""
    argv = sys.argv[1:] if argv is None else [*argv]  # `list` is a package here
    if threading.current_thread() is threading.main_thread():  # only the main thread may set signal handlers
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        args = _parser().parse_args(argv)
        args.command_line = shlex.join(["chimera", *argv])
        _load(f"{args.command}.run").run(args)
    except KeyboardInterrupt as interruption:
        return _fail(argv, str(interruption) or "interrupted", 130)
    except ModuleNotFoundError as error:
        if (remedy := missing_extra(error)) is None:
            raise
        return _fail(argv, f"error: {remedy}", 2)
    except (ValueError, OSError) as error:
        return _fail(argv, f"error: {error}", 2)
    return 0


class _CommandParser(argparse.ArgumentParser):
    """The parser of one command. It adds its arguments when it is first used, which keeps `chimera --help` fast."""

    command: str | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.command is not None:
            options, self.command = _load(self.command), None
            self.epilog = f"example:\n  {options.EXAMPLE}"
            options.add_arguments(self, [*(args or ())])
        namespace, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(self._unknown_option(rest[0].partition("=")[0]))
        return namespace, rest

    def _unknown_option(self, option: str) -> str:
        known = [name for action in self._actions for name in action.option_strings]
        near = [name for name in (_SYNONYMS.get(option.replace("_", "-")),) if name in known]
        near = near or get_close_matches(option, known, n=1, cutoff=0.7)
        return f"unknown option {option}" + (f", did you mean {near[0]}?" if near else self.get_default("remedy") or "")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="chimera",
        description="State space models on any topology.",
        epilog="chimera COMMAND --help describes a command, with an example.",
    )
    parser.add_argument("--version", action="version", version=f"chimera {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_CommandParser)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.command = name
    return parser


def _load(module: str) -> Any:
    """Import a command's options or its `run` module."""
    return import_module(f"{__name__}.{module}")


def _fail(argv: Sequence[str], message: str, code: int) -> int:
    print(f"chimera {argv[0]}: {message}", file=sys.stderr)
    return code
