"""Text as blocks of tokens, some of them masked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from chimera_lab.data.corpus import Corpora, Corpus, load_corpora
from chimera_lab.data.samples import Samples
from chimera_lab.data.tokenizer import load_tokenizer
from chimera_lab.data.tokens import tokenize

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: Label of positions that are not predicted.
IGNORED = -100


class TextData:
    """Texts as blocks of tokens.

    Without test files, a tenth of the tokens is held out: ten evenly spaced ranges, which do not depend on the length
    of blocks.

    Args:
        corpora: the texts.
        tokenizer: the tokenizer.
        length: tokens per block.
        max_tokens: number of tokens to use of each part.
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
        """Blocks to test a model that was trained on other text: the test files, or everything."""
        corpus = self.corpora.test or self.corpora.train
        return Blocks(self._tokens(corpus), self.tokenizer, self.length, corpus.name)

    def masked(self, part: Samples, rate: float) -> Masked:
        """Blocks with a fraction of their words masked."""
        return Masked(part, self.tokenizer, rate)

    def next_words(self, part: Samples) -> NextWords:
        """Blocks with the next word of each token."""
        return NextWords(part, self.tokenizer)

    def _tokens(self, corpus: Corpus) -> np.ndarray:
        return tokenize(corpus, self.tokenizer, self.max_tokens)


def load_text(
    data: str, length: int, tokenizer: str, vocab_size: int, text_column: str = "text", max_tokens: int | None = None
) -> TextData:
    """Texts as blocks of tokens, which are cached.

    Args:
        data: see `load_corpora`.
        length: tokens per block.
        tokenizer: see `load_tokenizer`.
        vocab_size: size of a new vocabulary.
        text_column: column of the text in jsonl and parquet files.
        max_tokens: number of tokens to use of each part.
    """
    corpora = load_corpora(data, text_column)
    train = corpora.train
    if tokenizer == "auto" and train.is_stream:
        raise ValueError(f"a vocabulary cannot be made for a stream, {train.name}: give one with --tokenizer")
    return TextData(corpora, load_tokenizer(tokenizer, train, vocab_size), length, max_tokens)


class TokenSlices:
    """The same tenths of each tenth of the tokens, concatenated.

    Args:
        tokens: all tokens; up to a hundred at the end are not used.
        first: the first tenth.
        end: the tenth after the last.
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

    A sample is a block, int64 ``[length]``. An incomplete last block is dropped.

    Args:
        tokens: the tokens of the corpus.
        tokenizer: the tokenizer that made them.
        length: tokens per block.
        name: name of the corpus, for messages.
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


class Labelled(Samples):
    """Blocks of tokens, some of which have labels, −100 at the others."""

    def collate(self, samples: Sequence[Any]) -> dict[str, Tensor]:
        """A batch: also ``places``, the indices of the labels among all tokens, which a GPU could only wait for."""
        batch = super().collate(samples)
        return batch | {"places": (batch["labels"] != IGNORED).flatten().nonzero().flatten()}


class NextWords(Labelled):
    """Blocks to predict word by word: ``{"input_ids": int64 [length], "labels": int64 [length]}``.

    The label of a token is the token after it, −100 if that is special, as ``[SEP]`` and unknown words are, or missing.

    Args:
        blocks: the blocks.
        tokenizer: the tokenizer, for its special tokens.
    """

    def __init__(self, blocks: Samples, tokenizer: Any):
        self.blocks, self.special = blocks, torch.zeros(len(tokenizer), dtype=torch.bool)
        self.special[tokenizer.all_special_ids] = True

    def __len__(self) -> int:
        return len(self.blocks)

    def sample(self, index: int) -> dict[str, Tensor]:
        ids = self.blocks.sample(index)
        following = ids[1:].masked_fill(self.special[ids[1:]], IGNORED)
        return {"input_ids": ids, "labels": torch.cat([following, following.new_full((1,), IGNORED)])}


class Masked(Labelled):
    """Masked blocks: ``{"input_ids": int64 [length], "labels": int64 [length]}``.

    Of the chosen words, 80 % are replaced by ``[MASK]``, 10 % by a random word, and 10 % are kept. Labels are the
    original words, −100 elsewhere. Special tokens, including unknown words, are never chosen.

    Args:
        blocks: the blocks to mask.
        tokenizer: the tokenizer, for its special tokens.
        rate: fraction of words to choose, at least one in each block.
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
        count = int(self.rate * len(places) + torch.rand(()))  # randomly rounded, so that the mean is exact
        chosen = places[torch.randperm(len(places))[: max(1, count)]]
        labels = torch.full_like(ids, IGNORED)
        labels[chosen] = ids[chosen]
        fate, others = torch.rand(len(chosen)), self.words[torch.randint(len(self.words), (len(chosen),))]
        replaced = torch.where(fate < 0.9, others, ids[chosen])
        ids[chosen] = torch.where(fate < 0.8, self.mask, replaced)
        return {"input_ids": ids, "labels": labels}
