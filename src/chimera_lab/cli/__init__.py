"""The program `chimera`. A command is a line in `COMMANDS` and a module of that name beside this file.

The module is loaded when the command is asked for, and offers ``EXAMPLE`` (a command line),
``add_arguments(parser, argv)`` and ``run(args)``; ``argv`` is what was typed after the command, for options that depend
on it.
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
    "demo": "train Chimera and a rival on data that come with it, and draw what nodes hear",
    "list": "show recipes and models",
    "train": "train a recipe, or continue a run",
    "eval": "evaluate a run on its test data, or on other data",
    "glue": "fine-tune a text model on the tasks of GLUE, with several seeds, and average",
    "plan": "estimate what a recipe takes on GPUs, and tell how to run it there",
    "show": "draw what each pixel, word or atom hears in a trained model, or a topology",
    "reproduce": "train the models of a comparison, all in the same way, and tell how they compare",
    "bench": "measure speed and memory against attention and other baselines",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, 2 for an error of the user, 130 for an interruption (Ctrl-C or SIGTERM)."""
    argv = sys.argv[1:] if argv is None else [*argv]  # `list` here is the command
    if threading.current_thread() is threading.main_thread():  # signals reach no other
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        args = _parser().parse_args(argv)
        args.command_line = shlex.join(["chimera", *argv])
        _module(args.command).run(args)
    except KeyboardInterrupt as interruption:
        return _end(argv, str(interruption) or "interrupted", 130)
    except ModuleNotFoundError as error:
        if (remedy := missing_extra(error)) is None:
            raise
        return _end(argv, f"error: {remedy}", 2)
    except (ValueError, OSError) as error:
        return _end(argv, f"error: {error}", 2)
    return 0


class _Command(argparse.ArgumentParser):
    """The parser of one command, which gets its arguments when it is used: `chimera --help` stays fast."""

    command: str | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.command is not None:
            module, self.command = _module(self.command), None
            self.epilog = f"example:\n  {module.EXAMPLE}"
            module.add_arguments(self, [*(args or ())])
        namespace, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(self._unknown(rest[0].partition("=")[0]))
        return namespace, rest

    def _unknown(self, option: str) -> str:
        known = [name for action in self._actions for name in action.option_strings]
        near = get_close_matches(option, known, n=1, cutoff=0.7)
        return f"unknown option {option}" + (f", did you mean {near[0]}?" if near else "")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="chimera",
        description="State space models on any topology.",
        epilog="chimera COMMAND --help tells more, with an example.",
    )
    parser.add_argument("--version", action="version", version=f"chimera {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Command)
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


def _module(command: str) -> Any:
    return import_module(f"{__name__}.{command}")


def _end(argv: Sequence[str], message: str, code: int) -> int:
    print(f"chimera {argv[0]}: {message}", file=sys.stderr)
    return code
