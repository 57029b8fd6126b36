"""Progress reporting for long operations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def progress(words: str, total: float | None) -> Generator[Callable[[float], None]]:
    """A progress bar on a terminal, otherwise a line; yields a function that advances it.

    Args:
        words: description of the operation.
        total: total amount of work; ``None`` if unknown.
    """
    if not sys.stderr.isatty() or find_spec("rich") is None:
        print(words, file=sys.stderr, flush=True)
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=total)
        yield lambda count: bar.advance(task, count)


@contextmanager
def each(items: Collection[T], words: str) -> Generator[Iterator[T]]:
    """Iterate over items with a `progress` bar."""
    with progress(words, len(items)) as advance:

        def one_by_one() -> Iterator[T]:
            for item in items:
                yield item
                advance(1)

        yield one_by_one()
