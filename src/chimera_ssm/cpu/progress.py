"""Progress of long operations: a line on stderr after five seconds, and again each time that the time has doubled."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

#: Seconds until the first line.
INTERVAL = 5.0
#: Operations on fewer nodes are never long.
_LARGE = 1000


@contextmanager
def _reported(words: str) -> Generator[None]:
    start, finished = time.monotonic(), threading.Event()

    def report() -> None:
        elapsed = INTERVAL
        while not finished.wait(elapsed):
            elapsed = time.monotonic() - start
            print(f"chimera: {words}: {elapsed:.0f} s so far", file=sys.stderr, flush=True)

    thread = threading.Thread(target=report, name="chimera-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def progress(words: str, num_nodes: int) -> AbstractContextManager[None]:
    """A context in which an operation on a large topology, called ``words``, reports that it goes on.

    Kernels release the interpreter lock, so that a thread can print while they run.
    """
    return _reported(f"{words} of {num_nodes:,} nodes") if num_nodes > _LARGE else nullcontext()
