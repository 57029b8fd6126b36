"""Locks on folders; the operating system releases a lock when its process ends."""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

#: The locked file in a folder, which names the process that holds the lock. A killed process may leave it, unlocked.
LOCK = ".lock"

_held: set[Path] = set()
_log = logging.getLogger(__name__)


@contextmanager
def held(folder: Path) -> Generator[Path]:
    """Create a folder if needed and lock it against other processes; reentrant.

    The operating system releases the lock when the process ends. Machines that share a folder over NFS respect it if
    the server supports locks. Of several processes of a run, the first holds the lock for all.

    Raises:
        ValueError: another process has the folder; the message names it.
    """
    path = folder.resolve() / LOCK
    if path in _held or not is_first_process():
        yield folder
        return
    with made(folder, exist_ok=True):
        lock = FileLock(path, timeout=0)
        _acquire(lock, folder)
        _held.add(path)
        try:
            yield folder
        finally:
            _held.discard(path)
            path.unlink(missing_ok=True)  # before the lock is dropped: no other process can have the file
            lock.release()


@contextmanager
def made(folder: Path, exist_ok: bool) -> Generator[None]:
    """Create a folder and its parents; new folders that are empty at the end are removed."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    make_folder(folder, exist_ok)
    try:
        yield
    finally:
        for path in new:
            with suppress(OSError):
                path.rmdir()


def is_first_process() -> bool:
    """Whether this is the process of a run that writes its files."""
    return all(int(os.environ.get(name, 0)) == 0 for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"))


def make_folder(folder: Path, exist_ok: bool = True) -> None:
    """Create a folder and its parents; an error says what to do."""
    try:
        folder.mkdir(parents=True, exist_ok=exist_ok)
    except OSError as error:
        if isinstance(error, FileExistsError) and folder.is_dir():
            raise
        raise OSError(f"cannot make {folder}: {error.strerror}; choose another folder with --out") from error


def _acquire(lock: FileLock, folder: Path) -> None:
    path = Path(lock.lock_file)
    try:
        lock.acquire()
    except Timeout:
        raise ValueError(
            f"{folder} is in use by {_holder(path)}: wait until it ends, or choose another folder"
        ) from None
    except PermissionError as error:
        raise OSError(f"cannot write {path}: {error.strerror}; choose another folder with --out") from error
    except OSError as error:
        _log.warning("%s cannot be locked (%s): start no other process in it", folder, error.strerror)
        return
    who = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    path.write_text(json.dumps(who) + "\n", encoding="utf-8")


def _holder(path: Path) -> str:
    """The holder of a lock, for messages."""
    try:
        who = json.loads(path.read_text(encoding="utf-8"))
        return f"process {who['pid']} on {who['host']} since {who['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it holds the lock and has not written the file yet
        return "another process"
