"""The tokens of a corpus, in a file of the cache; an interrupted tokenization is continued."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from chimera_lab.data.cache import cached
from chimera_lab.data.corpus import Corpus
from chimera_lab.data.files import write_atomically
from chimera_lab.data.progress import progress

#: At most this much work is lost when tokenization is interrupted.
SAVE_SECONDS = 60.0


_CHUNK = 1 << 24


def tokenize(corpus: Corpus, tokenizer: Any, max_tokens: int | None) -> np.ndarray:
    """The tokens of a corpus, with ``[SEP]`` after each document, memory-mapped from a file in the cache."""
    dtype = np.dtype("<u2" if len(tokenizer) <= 1 << 16 else "<u4")
    how = blake2b(tokenizer.backend_tokenizer.to_str().encode(), digest_size=16).hexdigest()
    path = cached(
        "tokens.bin", (corpus.key, how, max_tokens), lambda p: _write(corpus, tokenizer, max_tokens, dtype, p)
    )
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)


def _write(corpus: Corpus, tokenizer: Any, max_tokens: int | None, dtype: np.dtype, path: Path) -> None:
    """Write the tokens, continuing from the last saved minute of an interrupted call."""
    note = path.with_suffix(".progress")
    size, done, digest = _written(path, note)
    saved = time.monotonic()
    try:
        with open(path, "ab") as file, progress(f"tokenising {corpus}", corpus.size) as advance:
            file.truncate(size)
            pieces = islice(corpus.pieces(), done, None)
            while (most := _left(max_tokens, size, dtype)) and (several := list(islice(pieces, 1000))):
                tokens = np.fromiter(_encode(several, tokenizer), dtype)[:most]
                tokens.tofile(file)
                digest.update(tokens.tobytes())
                size, done = size + tokens.nbytes, done + len(several)
                advance(sum(len(piece) for piece in several if piece is not None))
                if time.monotonic() - saved > SAVE_SECONDS:
                    file.flush()
                    text = _note(size, done, digest)
                    write_atomically(note, lambda file, text=text: file.write(text.encode()))
                    saved = time.monotonic()
    except Exception:
        if not note.exists():  # remove what was made from bad files
            path.unlink(missing_ok=True)
        raise
    note.unlink(missing_ok=True)


def _written(path: Path, note: Path) -> tuple[int, int, blake2b]:
    """Number of bytes written before, number of pieces that they contain, and their digest.

    Zero if the bytes do not match the note: the machine may have crashed before all of them were on disk.
    """
    digest = blake2b()
    with suppress(OSError, ValueError), path.open("rb") as file:
        written = note.read_text()
        size, done = map(int, written.split()[:2])
        for start in range(0, size, _CHUNK):
            digest.update(file.read(min(_CHUNK, size - start)))
        if written == _note(size, done, digest):
            return size, done, digest
    return 0, 0, blake2b()


def _note(size: int, done: int, digest: blake2b) -> str:
    return f"{size} {done} {blake2b(f'{size} {done} {digest.hexdigest()}'.encode()).hexdigest()}"


def _left(max_tokens: int | None, size: int, dtype: np.dtype) -> int:
    return sys.maxsize if max_tokens is None else max_tokens - size // dtype.itemsize


def _encode(pieces: list[str | None], tokenizer: Any) -> Iterator[int]:
    """Tokens of pieces of text; ``<unk>`` of WikiText becomes the unknown token."""
    texts = [piece.replace("<unk>", tokenizer.unk_token) for piece in pieces if piece is not None]
    options = {"add_special_tokens": False, "return_attention_mask": False, "return_token_type_ids": False}
    encoded = iter(tokenizer(texts, verbose=False, **options)["input_ids"] if texts else ())
    for piece in pieces:
        if piece is None:
            yield tokenizer.sep_token_id
        else:
            yield from next(encoded)
