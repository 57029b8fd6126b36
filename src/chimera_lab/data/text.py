"""Text as blocks of tokens, some of them masked."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from chimera_lab.data.cache import cached
from chimera_lab.data.corpus import Corpora, Corpus, load_corpora
from chimera_lab.data.files import write_atomically
from chimera_lab.data.progress import progress
from chimera_lab.data.samples import Samples
from chimera_lab.data.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: No word is asked for here.
IGNORED = -100
#: Of tokenising that can be lost.
SAVE_SECONDS = 60.0
_CHUNK = 1 << 24


class TextData:
    """Texts as blocks of tokens.

    Where nothing is named for testing, a tenth of the tokens is: ten stretches, evenly spread, the same at
    any length of blocks.

    Args:
        corpora: the texts.
        tokenizer: makes tokens of them.
        length: tokens of a block.
        max_tokens: take only so many, of each part.
    """

    def __init__(self, corpora: Corpora, tokenizer: PreTrainedTokenizerBase, length: int, max_tokens: int | None):
        self.corpora, self.tokenizer, self.length, self.max_tokens = corpora, tokenizer, length, max_tokens

    @cached_property
    def train(self) -> Blocks:
        """Blocks to train on."""
        tokens, name = self._tokens(self.corpora.train), self.corpora.train.name
        if self.corpora.test is None:
            tokens = TokenSlices(tokens, 0, 9)
        return Blocks(tokens, self.tokenizer, self.length, name)

    @cached_property
    def test(self) -> Blocks:
        """Blocks to test on."""
        if self.corpora.test is not None:
            return self.unseen
        tokens = TokenSlices(self._tokens(self.corpora.train), 9, 10)
        return Blocks(
            tokens, self.tokenizer, self.length, f"the tenth of {self.corpora.train.name} held out for testing"
        )

    @cached_property
    def unseen(self) -> Blocks:
        """Blocks to test a model on that was trained on other text: what is named for testing, or everything."""
        corpus = self.corpora.test or self.corpora.train
        return Blocks(self._tokens(corpus), self.tokenizer, self.length, corpus.name)

    def _tokens(self, corpus: Corpus) -> np.ndarray:
        return tokenised(corpus, self.tokenizer, self.max_tokens)


def load_text(
    data: str, length: int, tokenizer: str, vocab_size: int, text_column: str = "text", max_tokens: int | None = None
) -> TextData:
    """Texts as blocks of tokens, which are made once and kept in the cache.

    Args:
        data: see `load_corpora`.
        length: tokens of a block.
        tokenizer: see `load_tokenizer`.
        vocab_size: of a vocabulary to be made.
        text_column: where the text is in jsonl and parquet files.
        max_tokens: take only so many, of each part.
    """
    corpora = load_corpora(data, text_column)
    train = corpora.train
    if tokenizer == "auto" and train.is_stream:
        raise ValueError(f"a vocabulary cannot be made for a stream, {train.name}: give one with --tokenizer")
    return TextData(corpora, load_tokenizer(tokenizer, train, vocab_size), length, max_tokens)


class TokenSlices:
    """Some tenths of each tenth of the tokens, one after the other, as if they were an array.

    Args:
        tokens: all of them; at most a hundred at the end belong to no stretch.
        first: of the tenths.
        end: the one after the last.
    """

    def __init__(self, tokens: np.ndarray, first: int, end: int):
        width = max(1, len(tokens) // 100)
        self.tokens, self.period, self.start, self.kept = tokens, 10 * width, first * width, (end - first) * width

    def __len__(self) -> int:
        return len(self.tokens) // self.period * self.kept

    def __getitem__(self, places: slice) -> np.ndarray:
        tenth, place = np.divmod(np.arange(places.start, places.stop), self.kept)
        return self.tokens[tenth * self.period + self.start + place]


class Blocks(Samples):
    """A corpus cut into blocks ``[CLS] … [SEP]`` of equal length, with ``[SEP]`` also between documents.

    A sample is a block, int64 ``[length]``. What remains at the end is left out.

    Args:
        tokens: those of the corpus.
        tokenizer: that made them.
        length: tokens of a block.
        name: of the corpus, for messages.
    """

    def __init__(self, tokens: np.ndarray | TokenSlices, tokenizer: Any, length: int, name: str):
        self.tokens, self.length, self.ends = tokens, length, (tokenizer.cls_token_id, tokenizer.sep_token_id)
        if len(self) == 0:
            remedy = f"give more text, or set length to {len(tokens) + 2} or less" if len(tokens) else "give more text"
            raise ValueError(f"{name} has {len(tokens)} tokens, less than a block of {length} has: {remedy}")

    def __len__(self) -> int:
        return len(self.tokens) // (self.length - 2)

    def content(self, index: int) -> bytes:
        return self.sample(index).numpy().tobytes()

    def sample(self, index: int) -> Tensor:
        inner = self.length - 2
        block = np.empty(self.length, np.int64)
        block[0], block[-1] = self.ends
        block[1:-1] = self.tokens[index * inner : (index + 1) * inner]
        return torch.from_numpy(block)


class Masked(Samples):
    """Blocks in which some words are to be guessed: ``{"input_ids": int64 [length], "labels": int64 [length]}``.

    Of the chosen words 80 % are replaced by ``[MASK]``, 10 % by any word, 10 % stay; labels are the words that
    were there, −100 elsewhere. Special tokens, unknown words among them, are never chosen.

    Args:
        blocks: to mask.
        tokenizer: knows the words.
        rate: part of the words to be guessed, at least one in each block.
    """

    def __init__(self, blocks: Samples, tokenizer: Any, rate: float):
        self.blocks, self.rate, self.mask = blocks, rate, tokenizer.mask_token_id
        self.is_word = torch.ones(len(tokenizer), dtype=torch.bool)
        self.is_word[tokenizer.all_special_ids] = False
        self.words = self.is_word.nonzero().flatten()
        if not len(self.words):
            raise ValueError("the vocabulary has no words, only special tokens: give other text, or name a --tokenizer")

    def __len__(self) -> int:
        return len(self.blocks)

    def sample(self, index: int) -> dict[str, Tensor]:
        ids = self.blocks.sample(index)
        places = self.is_word[ids].nonzero().flatten()
        count = int(self.rate * len(places) + torch.rand(()))  # rounded up or down, so that the mean is right
        chosen = places[torch.randperm(len(places))[: max(1, count)]]
        labels = torch.full_like(ids, IGNORED)
        labels[chosen] = ids[chosen]
        fate, others = torch.rand(len(chosen)), self.words[torch.randint(len(self.words), (len(chosen),))]
        replaced = torch.where(fate < 0.9, others, ids[chosen])
        ids[chosen] = torch.where(fate < 0.8, self.mask, replaced)
        return {"input_ids": ids, "labels": labels}


# Tokens


def tokenised(corpus: Corpus, tokenizer: Any, max_tokens: int | None) -> np.ndarray:
    """The tokens of a corpus, with ``[SEP]`` after each document; a file in the cache, read as needed."""
    dtype = np.dtype("<u2" if len(tokenizer) <= 1 << 16 else "<u4")
    how = blake2b(tokenizer.backend_tokenizer.to_str().encode(), digest_size=16).hexdigest()
    path = cached(
        "tokens.bin", (corpus.key, how, max_tokens), lambda p: _write(corpus, tokenizer, max_tokens, dtype, p)
    )
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)


def _write(corpus: Corpus, tokenizer: Any, max_tokens: int | None, dtype: np.dtype, path: Path) -> None:
    """Write the tokens; interrupted after minutes or hours, go on from the last minute."""
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
        if not note.exists():  # of bad files nothing remains
            path.unlink(missing_ok=True)
        raise
    note.unlink(missing_ok=True)


def _written(path: Path, note: Path) -> tuple[int, int, blake2b]:
    """Bytes that are written, the number of pieces that they are of, and their digest.

    Nothing, if they are not as they were written: the machine may have gone down before all was on the disk.
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
    """Tokens of pieces of text; WikiText's ``<unk>`` is an unknown word."""
    texts = [piece.replace("<unk>", tokenizer.unk_token) for piece in pieces if piece is not None]
    options = {"add_special_tokens": False, "return_attention_mask": False, "return_token_type_ids": False}
    encoded = iter(tokenizer(texts, verbose=False, **options)["input_ids"] if texts else ())
    for piece in pieces:
        if piece is None:
            yield tokenizer.sep_token_id
        else:
            yield from next(encoded)
