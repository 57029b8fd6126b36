"""Large buffers that the process keeps for reuse.

The C library returns large blocks to the system when they are freed. Each new one costs a page fault per page, which
can take as long as the computation that fills it.
"""

from __future__ import annotations

import os
from math import prod
from threading import Lock
from weakref import finalize

import numpy as np
import torch
from torch import Tensor

#: Bytes of the smallest buffer that is kept. The C library reuses blocks of up to 32 MB itself, for PyTorch as well.
_SMALLEST = 1 << 25
#: Bytes to which kept buffers are aligned, as those of PyTorch are.
_ALIGNMENT = 64


class Workspace:
    """Buffers of freed tensors, kept for new tensors of about the same size.

    A tensor owns its buffer exclusively. When nothing refers to its memory any more (no view, no array that shares
    it, no saved tensor of autograd), the buffer returns here. The newest are kept, up to ``limit`` bytes in all.

    A buffer may return while its thread is anywhere, here as well, because the garbage collector may free tensors. So
    no thread waits for the lock: if it is taken, memory is allocated and freed as usual.
    """

    def __init__(self, limit: int):
        self.limit = limit
        self._kept: list[np.ndarray] = []  # oldest first
        self._lock = Lock()

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """An uninitialised tensor; if it is large, in a kept buffer of about its size, if there is one.

        NumPy allocates it, because the aligned blocks that PyTorch asks for fragment the heap: with these, a training
        step of a text model needs a tenth more memory.
        """
        size, name = prod(shape) * dtype.itemsize, str(dtype).removeprefix("torch.")
        if size < _SMALLEST:
            return torch.from_numpy(np.empty(shape, name))
        buffer = self._take(size)
        # A view of an array refers to the owner of its memory. That is a memoryview here, which NumPy does not look
        # through, so that every view keeps this array alive.
        offset = -buffer.ctypes.data % _ALIGNMENT
        array = np.frombuffer(buffer.data, name, prod(shape), offset)
        finalize(array, self._give_back, buffer).atexit = False
        return torch.from_numpy(array.reshape(shape))

    @property
    def kept(self) -> int:
        """Bytes of the buffers that are kept now."""
        return sum(buffer.nbytes for buffer in self._kept)

    def clear(self) -> None:
        """Free all buffers that are kept."""
        self._kept = []

    def start_anew(self) -> None:
        """For a forked child: free the parent's buffers, writing to which would copy them, and its lock."""
        self._kept, self._lock = [], Lock()

    def _take(self, size: int) -> np.ndarray:
        """A buffer for ``size`` aligned bytes: the newest that is at most an eighth too large, or a new one."""
        least, most = size + _ALIGNMENT, size + size // 8 + _ALIGNMENT
        if self._lock.acquire(blocking=False):
            try:
                kept = self._kept
                for k in reversed(range(len(kept))):
                    if least <= kept[k].nbytes <= most:
                        return kept.pop(k)
            finally:
                self._lock.release()
        try:
            return np.empty(least, np.uint8)  # NumPy requests huge pages
        except MemoryError:
            self.clear()
            return np.empty(least, np.uint8)

    def _give_back(self, buffer: np.ndarray) -> None:
        """Keep a buffer, and free the oldest until all fit the limit."""
        if buffer.nbytes > self.limit or not self._lock.acquire(blocking=False):
            return
        try:
            before = self._kept  # those that are dropped are freed with this list, after the lock
            self._kept = _newest([*before, buffer], self.limit)
        finally:
            self._lock.release()


def _newest(buffers: list[np.ndarray], limit: int) -> list[np.ndarray]:
    """The last buffers, as many as fit the limit."""
    size = 0
    for k in reversed(range(len(buffers))):
        size += buffers[k].nbytes
        if size > limit:
            return buffers[k + 1 :]
    return buffers


workspace = Workspace(limit=1 << 29)
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=workspace.start_anew)


def set_workspace_limit(num_bytes: int) -> None:
    """Set how much memory of freed tensors the compiled kernels may keep for reuse in this process.

    The default is 512 MiB, 2²⁹. With 0 nothing is kept: each call allocates its memory anew.

    Args:
        num_bytes: the limit in bytes. Buffers that are kept at the moment are freed.
    """
    if num_bytes < 0:
        raise ValueError(f"the limit of the workspace must be 0 bytes or more, found {num_bytes}")
    workspace.limit = num_bytes
    workspace.clear()
