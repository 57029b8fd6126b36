"""What takes long is seen to go on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def progress(words: str, total: float | None) -> Generator[Callable[[float], None]]:
    """A bar on a terminal, else a line; within, a function that is told how much more is done.

    Args:
        words: what is being done.
        total: how much there is to do; ``None`` if that is not known.
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
    """The items one by one, with their `progress`."""
    with progress(words, len(items)) as advance:

        def one_by_one() -> Iterator[T]:
            for item in items:
                yield item
                advance(1)

        yield one_by_one()
