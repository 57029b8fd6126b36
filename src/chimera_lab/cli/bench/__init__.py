"""`chimera bench`: times relative to attention and other baselines, measured in the same run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from chimera_lab.cli.bench.cases import GROUPS, KNOWN

EXAMPLE = "chimera bench --quick --only grid-14 molecules --json bench.json"


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Declare the options."""
    parser.add_argument("--quick", action="store_true", help="about 1 s for each case instead of 6")
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"only these cases of {', '.join([*KNOWN, *GROUPS])}")
    parser.add_argument("--models", action="store_true", help="also measure whole models, which takes minutes each")
    parser.add_argument("--threads", type=_positive, metavar="N", help="threads of PyTorch (its default)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to this file")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="plot time and memory against size (minutes)")
    parser.add_argument(
        "--gpu-estimate", action="store_true", help="measure nothing; estimate the Triton kernels' times on an A100"
    )
    parser.add_argument("--docs", type=Path, metavar="FILE.md", help="write the page docs/performance.md")


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, found {text!r}")
    return int(text)
