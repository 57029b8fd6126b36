"""Downloads with checksums."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from hashlib import file_digest
from http.client import HTTPException
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from chimera_lab.data.progress import progress

_CHUNK, _SECONDS = 1 << 20, 30


def download(address: str, checksums: Mapping[str, str], folder: Path, remedy: str) -> Path:
    """A folder with the files of a data set; those that are missing are downloaded. It appears once it is complete.

    Args:
        address: of the files' folder.
        checksums: MD5 of each file, by name, as its publisher states it.
        folder: where the files are stored.
        remedy: what to do without a network, for messages.
    """
    if folder.is_dir():
        return folder
    part = folder.with_name(f"{folder.name}.part")
    part.mkdir(parents=True, exist_ok=True)
    for name, checksum in checksums.items():
        if not _is_intact(part / name, checksum):
            _fetch(f"{address}/{name}", part / name, remedy)
        if not _is_intact(part / name, checksum):
            (part / name).unlink()
            raise ValueError(f"{address}/{name} is not the published file: its MD5 is not {checksum}; {remedy}")
    return Path(shutil.move(part, folder))


def _is_intact(path: Path, checksum: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file_digest(file, "md5").hexdigest() == checksum


def _fetch(url: str, path: Path, remedy: str) -> None:
    try:
        with urlopen(url, timeout=_SECONDS) as answer, path.open("wb") as file:
            size = answer.headers.get("Content-Length")
            with progress(f"downloading {url}", None if size is None else int(size)) as advance:
                while chunk := answer.read(_CHUNK):
                    file.write(chunk)
                    advance(len(chunk))
    except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
        raise ValueError(f"{url} could not be downloaded ({error}); {remedy}") from error
