"""Peak memory of a call."""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Callable
from contextlib import suppress

from chimera_ssm.cpu.workspace import workspace


def extra_memory(function: Callable[[], object]) -> int:
    """Peak bytes that a call needs beyond those in use before it."""
    _free_memory()
    resting = _reset_peak()
    function()
    return max(0, _peak() - resting)


def _free_memory() -> None:
    """Return unused memory and cached buffers to the system; a call that reuses them would seem to need less."""
    workspace.clear()
    with suppress(AttributeError, OSError):  # other C libraries do not offer it
        ctypes.CDLL(None).malloc_trim(0)


def _reset_peak() -> int:
    """Reset the peak to the memory in use now, where Linux allows it, and return that."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # if this is refused the earlier peak remains, and the extra memory is a lower bound
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
