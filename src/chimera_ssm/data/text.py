"""Text as blocks of tokens, some of them masked."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.data.cache import cached
from chimera_ssm.data.corpus import Corpus, load_corpora
from chimera_ssm.data.samples import Samples, split
from chimera_ssm.data.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: No word is asked for here.
IGNORED = -100


class TextData(NamedTuple):
    """Blocks of tokens to train on, blocks to test on, and the tokenizer they were made with."""

    train: Samples
    test: Samples
    tokenizer: PreTrainedTokenizerBase


def load_text(
    data: str, length: int, tokenizer: str, vocab_size: int, text_column: str = "text", max_tokens: int | None = None
) -> TextData:
    """Texts as blocks of tokens, made once and kept in the cache.

    Args:
        data: see `load_corpora`; where nothing is named for testing, a tenth of the blocks is.
        length: tokens of a block.
        tokenizer: see `load_tokenizer`.
        vocab_size: of a vocabulary to be made.
        text_column: where the text is in jsonl and parquet files.
        max_tokens: take only so many, of each part.
    """
    train, test = load_corpora(data, text_column)
    if tokenizer == "auto" and train.size is None and max_tokens is not None:
        raise ValueError(f"a vocabulary cannot be made for a stream, {train.name}: give one with --tokenizer")
    found = load_tokenizer(tokenizer, train, vocab_size)
    blocks = [Blocks(corpus, found, length, max_tokens) for corpus in (train, test) if corpus is not None]
    if test is not None:
        return TextData(*blocks, found)
    if len(blocks[0]) < 2:
        raise ValueError(f"{train.name} has {len(blocks[0])} block of {length} tokens: give more text, or less length")
    held_out, rest = split(blocks[0], max(1, len(blocks[0]) // 10), "test")
    return TextData(rest, held_out, found)


class Blocks(Samples):
    """A corpus cut into blocks ``[CLS] … [SEP]`` of equal length, with ``[SEP]`` also between documents.

    A sample is a block, int64 ``[length]``. What remains at the end is left out.

    Args:
        corpus: the texts.
        tokenizer: makes tokens of them.
        length: tokens of a block.
        max_tokens: take only so many.
    """

    def __init__(self, corpus: Corpus, tokenizer: Any, length: int, max_tokens: int | None = None):
        self.tokens = tokenised(corpus, tokenizer, max_tokens)
        self.length, self.ends = length, (tokenizer.cls_token_id, tokenizer.sep_token_id)
        if len(self) == 0:
            raise ValueError(
                f"{corpus.name} has {len(self.tokens)} tokens, less than a block of {length} has: give more text, or "
                f"set length to {max(3, len(self.tokens) + 2)} or less"
            )

    def __len__(self) -> int:
        return len(self.tokens) // (self.length - 2)

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
    left = sys.maxsize if max_tokens is None else max_tokens
    with open(path, "wb") as file, _progress(corpus) as advance:
        pieces = corpus.pieces()
        while left and (several := list(islice(pieces, 1000))):
            tokens = np.fromiter(_encode(several, tokenizer), dtype)[:left]
            tokens.tofile(file)
            left -= len(tokens)
            advance(sum(len(piece) for piece in several if piece is not None))


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


@contextmanager
def _progress(corpus: Corpus) -> Generator[Any]:
    """A bar on a terminal, else a line; within, a function that is told how many characters were treated."""
    words = f"tokenising {corpus.name}"
    if not sys.stderr.isatty():
        print(words, file=sys.stderr, flush=True)
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(words, total=corpus.size)
        yield lambda count: progress.advance(task, count)
