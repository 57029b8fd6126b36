"""The ways in which a run stops early: Ctrl-C, SIGTERM and divergence."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any, Self

import lightning as L
from lightning.pytorch.callbacks import Callback


class Interrupted(Exception):
    """The run stopped on request; the message says how to continue it."""


class Diverged(ValueError):
    """The loss or a weight became NaN or infinite; the message says in which step, and what to try."""


class StopSignals(Callback):
    """A context within which Ctrl-C and SIGTERM call ``on_signal``.

    Lightning installs its own handlers, which would end the process without a checkpoint; they are replaced when
    training or validation starts.

    Args:
        on_signal: a function without arguments.
    """

    def __init__(self, on_signal: Callable[[], None]):
        self.on_signal, self.previous = on_signal, {}

    def __enter__(self) -> Self:
        self.previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self._install()
        return self

    def __exit__(self, *_: Any) -> None:
        if _is_main_thread():
            for number, handler in self.previous.items():
                signal.signal(number, handler)

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        self._install()

    def on_validation_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        self._install()

    def _install(self) -> None:
        if _is_main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: self.on_signal())


def _is_main_thread() -> bool:
    """Python delivers signals to the main thread only."""
    return threading.current_thread() is threading.main_thread()
