"""Peak memory of a call."""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Callable
from contextlib import suppress


def extra_memory(function: Callable[[], object]) -> int:
    """Bytes that a call needs at most, beyond what is in use before it."""
    _free_memory()
    resting = _reset_peak()
    function()
    return max(0, _peak() - resting)


def _free_memory() -> None:
    """Return unused memory to the system, kept buffers as well; otherwise a call that reuses it looks too modest."""
    from chimera_ssm.cpu.workspace import workspace

    workspace.clear()
    with suppress(AttributeError, OSError):  # other C libraries do not offer it
        ctypes.CDLL(None).malloc_trim(0)


def _reset_peak() -> int:
    """Let the peak start again from the memory in use now, where Linux allows it; returns that."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # where it is refused the peak so far stays, and the extra memory is a lower bound
    return _peak()


def _peak() -> int:
    """Peak resident memory of this process in bytes."""
    try:
        with open("/proc/self/status") as file:
            line = next(line for line in file if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    except (OSError, StopIteration):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak
