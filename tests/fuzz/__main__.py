"""Random cases of functions and layers against the dense truth: ``python -m tests.fuzz --cases 10000 --threads 1,2``.

Every failure is a line with the command that runs this case alone. The exit code is 1 if there is any.
"""

import argparse
import sys
from collections import Counter
from time import monotonic

import torch

from tests.fuzz.cases import FAMILIES
from tests.fuzz.check import draw, failures


def main(arguments=None):
    """Run the cases; how many failed."""
    options = _options(arguments)
    threads = [int(n) for n in options.threads.split(",")]
    ran, failed, start = Counter(), Counter(), monotonic()
    torch.set_num_threads(1)
    for number in range(options.cases):
        seed, count = options.seed + number, threads[number * len(threads) // options.cases]
        case = draw(seed)
        if options.family in (None, case.family):
            ran[case.family] += 1
            if lines := failures(case, count):
                failed[case.family] += 1
                command = f"python -m tests.fuzz --seed {seed} --cases 1 --threads {count}"
                print(f"\r{command}  # {case}: {'; '.join(lines)}", flush=True)
        if sys.stderr.isatty() or number % 500 == 499:
            seconds = monotonic() - start
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"{number + 1:,} of {options.cases:,} cases, {failed.total():,} failed, {seconds:.0f} s", end=end,
                  file=sys.stderr, flush=True)  # fmt: skip
    by_family = ", ".join(f"{family} {failed[family]:,} of {n:,}" for family, n in sorted(ran.items()))
    print(f"{failed.total():,} of {ran.total():,} cases failed ({by_family}), {monotonic() - start:.0f} s")
    return failed.total()


def _options(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000, help="how many (default: 10000)")
    parser.add_argument("--seed", type=int, default=0, help="of the first case; the others follow (default: 0)")
    parser.add_argument("--threads", default="1,2", help="of PyTorch, for equal shares of the cases (default: 1,2)")
    parser.add_argument("--family", choices=[*FAMILIES, "large"], help="only cases of this family")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(min(1, main()))
