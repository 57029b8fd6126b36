"""A cache with a bound, for keys that are unbounded, such as shapes of tensors."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """The most recently made values, ``limit`` at most."""

    def __init__(self, limit: int):
        self.limit, self._values, self._lock = limit, {}, Lock()

    def __call__(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value for a key; ``make()`` where there is none."""
        value = self._values.get(key)
        if value is None:
            value = make()
            with self._lock:
                while len(self._values) >= self.limit:
                    del self._values[next(iter(self._values))]
                self._values[key] = value
        return value
