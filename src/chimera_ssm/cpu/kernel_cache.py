"""Numba's cache on disk with a checksum at the end of each file: a damaged file is named and compiled again.

Numba trusts its files: of a truncated one it raises errors of unpickling, and machine code with a flipped bit it runs.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Generator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile

_DIGEST = 16  # bytes
_log = logging.getLogger(__name__)


class CheckedCacheFile(IndexDataCacheFile):
    """The index and data files of a kernel."""

    @contextmanager
    def _open_for_write(self, filepath: str) -> Generator[Any]:
        buffer = io.BytesIO()
        yield buffer
        content = buffer.getvalue()
        with super()._open_for_write(filepath) as file:
            file.write(content + _digest(content))  # unpickling ignores what follows

    def _load_index(self) -> dict[Any, str]:
        return super()._load_index() if self._is_intact(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        return super()._load_data(name) if self._is_intact(self._data_path(name)) else None

    def _is_intact(self, name: str) -> bool:
        """Whether a file is as it was written; if it is not, it is removed."""
        path = Path(name)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return True  # which Numba knows how to treat
        if content[-_DIGEST:] == _digest(content[:-_DIGEST]):
            return True
        _log.warning("%s is damaged: it is removed, and its kernel compiled again", path)
        with suppress(OSError):
            path.unlink()
        return False


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST).digest()


def with_checked_cache(compiled: Any) -> Any:
    """A function compiled with ``cache=True``, whose files are checked from now on."""
    cache = getattr(compiled, "_cache", None)
    if cache is not None:  # Numba's compiler may be switched off
        stamp, name = cache._cache_file._source_stamp, f"{cache._impl.filename_base}.checked"
        cache._cache_file = CheckedCacheFile(cache.cache_path, name, stamp)
    return compiled
