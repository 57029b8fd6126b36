"""The cache of derived structure, shared by equal topologies and bounded in bytes; size and device of cached values.

Derived structure (levels, plans, tensors, …) belongs to the content of a topology, which its key identifies. Equal
topologies hold the same `Entry`; entries used recently outlive their topologies, so that a topology that is built again
at every step is planned once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from threading import Lock
from typing import Any, Generic, TypeVar, overload
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

Value = TypeVar("Value")
_MISSING = object()


@dataclass(eq=False)
class Entry:
    """Content and derived structure of a topology.

    Attributes:
        kind: the class.
        content: attributes that define the topology.
        results: values by function, then by arguments.
    """

    kind: type
    content: dict[str, Any]
    results: dict[Hashable, dict[Hashable, Any]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def topology(self) -> Any:
        """A topology with this content, on the CPU."""
        topology = object.__new__(self.kind)
        topology.__dict__.update(self.content, device=torch.device("cpu"), _entry=self)
        return topology

    def find(self, function: Hashable, args: Hashable, make: Callable[[], Any], limit: int | None = None) -> Any:
        """The result of ``function`` for ``args``, made if there is none; only the ``limit`` newest are kept."""
        results = self.results.get(function)
        if results is None:
            results = self.results.setdefault(function, {})
        value = results.get(args, _MISSING)
        if value is not _MISSING:
            return value
        with outside_contexts():
            value = results.setdefault(args, make())  # another thread may have been first
        if limit is not None:
            with self.lock:
                for oldest in list(results)[:-limit]:  # dictionaries are ordered: the newest is last
                    del results[oldest]
        return value


def nbytes(value: Any) -> int:
    """Bytes of the arrays, tensors and strings in a value: in collections, plans, and topologies derived from it.

    The parts of a union are not counted, because they have cache entries themselves.
    """
    total, waiting, seen = 0, [value], set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (np.ndarray, torch.Tensor)):
            total += value.nbytes
        elif isinstance(value, str):
            total += len(value)
        elif isinstance(value, dict):
            waiting += [held for key, held in list(value.items()) if key != "_parts"]
        elif isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
            waiting += value
        elif not isinstance(value, type) and (is_dataclass(value) or "_entry" in getattr(value, "__dict__", ())):
            waiting.append(vars(value))
    return total


class Recent(Generic[Value]):
    """Recently used values, bounded in bytes; the most recent one stays, however large it is.

    Entries grow as they are used, so all are measured again after every few new ones.

    Args:
        capacity: in bytes.
    """

    def __init__(self, capacity: int):
        self.capacity, self.lock = capacity, Lock()
        self.kept: OrderedDict[Hashable, Value] = OrderedDict()
        self.sizes: dict[Hashable, int] = {}
        self.nbytes, self.unmeasured = 0, 0

    def get(self, key: Hashable) -> Value | None:
        """The value, which is now the most recent one, or ``None``."""
        with self.lock:
            if key in self.kept:
                self.kept.move_to_end(key)
            return self.kept.get(key)

    def put(self, key: Hashable, value: Value) -> None:
        """Make a value the most recent one, and drop the least recent ones beyond the capacity."""
        with self.lock:
            known = self.kept.get(key) is value
            self.kept[key] = value
            self.kept.move_to_end(key)
            if not known:
                self._measure(key)
            while self.nbytes > self.capacity and len(self.kept) > 1:
                oldest, _ = self.kept.popitem(last=False)
                self.nbytes -= self.sizes.pop(oldest)

    def clear(self) -> None:
        """Drop everything."""
        with self.lock:
            self.kept.clear()
            self.sizes.clear()
            self.nbytes, self.unmeasured = 0, 0

    def _measure(self, new: Hashable) -> None:
        self.unmeasured += 1
        due = 4 * self.unmeasured >= len(self.kept)
        self.unmeasured = 0 if due else self.unmeasured
        sizes = {key: nbytes(self.kept[key]) for key in (self.kept if due else [new])}
        self.nbytes += sum(size - self.sizes.get(key, 0) for key, size in sizes.items())
        self.sizes.update(sizes)


_lock = Lock()
#: Entries in use, by key and by other names of the topology.
_entries: WeakValueDictionary[Hashable, Entry] = WeakValueDictionary()
#: Of single topologies. All graphs of the peptides data set fit: 16,000 with 150 nodes each, and their plans.
_singles: Recent[Entry] = Recent(1 << 29)
#: Of unions, apart: they differ from batch to batch and would displace their parts.
_unions: Recent[Entry] = Recent(1 << 28)


def entry_of(kind: type, content: dict[str, Any]) -> Entry:
    """The entry shared by all topologies with this content."""
    key = content["key"]
    with _lock:
        entry = _entries.get(key)
        if entry is None or entry.kind is not kind:
            entry = _entries[key] = Entry(kind, content)
        _use(entry)
    return entry


def find_entry(name: Hashable) -> Entry | None:
    """The entry of this name, if a topology holds it or it was used recently."""
    with _lock:
        entry = _entries.get(name)
        if entry is not None:
            _use(entry)
    return entry


def add_name(name: Hashable, entry: Entry) -> None:
    """Let `find_entry` find an entry by another name than its key."""
    with _lock:
        _entries[name] = entry


def clear() -> None:
    """Drop all entries that no topology holds."""
    _singles.clear()
    _unions.clear()


def _use(entry: Entry) -> None:
    recent = _unions if entry.content["num_parts"] > 1 else _singles
    recent.put(entry.content["key"], entry)


@contextmanager
def outside_contexts() -> Generator[None]:
    """For tensors that outlive the inference or tracing context in which they are made."""
    with torch.inference_mode(False), _disable_current_modes(), _outside_trace():
        yield


@contextmanager
def _outside_trace() -> Generator[None]:
    """Hide what follows from `torch.jit.trace`."""
    traced: Any = torch._C._get_tracing_state()
    if traced is None:
        yield
        return
    torch._C._set_tracing_state(None)  # ty: ignore[missing-attribute]
    try:
        yield
    finally:
        torch._C._set_tracing_state(traced)  # ty: ignore[missing-attribute]


class derived(Generic[Value]):
    """A property that is computed on first use and shared by equal topologies."""

    def __init__(self, function: Callable[[Any], Value]):
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, topology: None, owner: type | None = None) -> derived[Value]: ...

    @overload
    def __get__(self, topology: object, owner: type | None = None) -> Value: ...

    def __get__(self, topology: Any, owner: type | None = None) -> Any:
        return self if topology is None else topology.cached(self.function)


def on_device(value: Any, device: torch.device) -> Any:
    """Integer arrays as tensors on ``device``, also within plans and tuples of them."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.array(value)).to(device)
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, tuple):
        return tuple(on_device(v, device) for v in value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(*(on_device(getattr(value, f.name), device) for f in fields(value)))
    return value
