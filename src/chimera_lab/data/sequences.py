"""Generated sequences with answers to predict: associative recall, selective copying, ListOps.

- ``recall:PAIRS``, multi-query associative recall (Arora et al. 2023, "Zoology"): keys with their values, and later
  each key once more, with its value to predict. Gaps between a pair and its query follow a power law, as there.
- ``copying:TOKENS``, selective copying (Gu and Dao 2023, "Mamba"): tokens at random places among noise, to be repeated
  in their order at the end.
- ``listops``, nested operations on digits with the grammar of the Long Range Arena (Tay et al. 2021), whose result is
  to be predicted at the first place. Expressions have a quarter of the length at least; at 2,000 tokens these are the
  arena's 500 to 2,000. ``[PAD]`` fills the rest and is a token like others.

Places to predict are marked by ``[MASK]``: models are bidirectional.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from chimera_lab.data.cache import cached_value
from chimera_lab.data.progress import progress
from chimera_lab.data.random import generator, seed_of
from chimera_lab.data.samples import Samples
from chimera_lab.data.text import IGNORED, Labelled

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TRAIN, TEST = 40_000, 2000
SPECIAL = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
PAD, MASK, FIRST = SPECIAL.index("[PAD]"), SPECIAL.index("[MASK]"), len(SPECIAL)
#: Keys of associative recall, and as many values.
KEYS = 128
#: Exponent of the power law of gaps, as in Zoology.
POWER = 0.01
#: Tokens of selective copying, besides the noise.
COPIED = 16
OPERATORS = "[MAX", "[MIN", "[MED", "[SM"
CLOSE = "]"
#: The grammar of the Long Range Arena: nesting, arguments of an operator, and the probability of an operator.
DEPTH, ARGUMENTS, OPERATES = 10, 10, 0.25

WORDS = {
    "recall": [*(f"k{n}" for n in range(KEYS)), *(f"v{n}" for n in range(KEYS))],
    "copying": ["noise", *(f"t{n}" for n in range(COPIED))],
    "listops": [*(str(n) for n in range(10)), *OPERATORS, CLOSE],
}


class Answers(Labelled):
    """Sequences with answers: ``{"input_ids": int64 [length], "labels": int64 [length]}``, −100 where none is asked."""

    def __init__(self, ids: np.ndarray, labels: np.ndarray):
        self.ids, self.answers = ids, labels

    def __len__(self) -> int:
        return len(self.ids)

    def sample(self, index: int) -> dict[str, Tensor]:
        pair = self.ids[index], self.answers[index]
        ids, labels = (torch.from_numpy(row.astype(np.int64)) for row in pair)
        return {"input_ids": ids, "labels": labels}

    def content(self, index: int) -> bytes:
        return self.ids[index].tobytes() + self.answers[index].tobytes()


@dataclass(frozen=True)
class SequenceData:
    """Generated sequences in the place of `TextData`.

    Args:
        train: sequences to train on.
        test: sequences to test on.
        tokenizer: one token for each word, for saved models.
    """

    train: Answers
    test: Answers
    tokenizer: PreTrainedTokenizerBase

    @property
    def unseen(self) -> Answers:
        """Sequences to test a model that was trained on others."""
        return self.test

    def masked(self, part: Samples, rate: float) -> Samples:
        """The sequences as they are: what is to be predicted belongs to the task."""
        return part


def is_generated(data: str) -> bool:
    """Whether the name of a data set is that of generated sequences."""
    return data.partition(":")[0] in WORDS


def load_sequences(data: str, length: int) -> SequenceData:
    """Training and test sequences, which are cached.

    Args:
        data: ``recall:PAIRS``, ``copying:TOKENS`` or ``listops``.
        length: tokens per sequence.
    """
    draw = _task(data, length)

    def part(name: str, count: int) -> Answers:
        key = "sequences", data, length, name, count
        return cached_value(f"{data.replace(':', '-')}.npz", key, lambda: _made(*draw(name, count)), _save, _load)

    return SequenceData(part("train", TRAIN), part("test", TEST), word_tokenizer(WORDS[data.partition(":")[0]]))


def _task(data: str, length: int) -> Callable[[str, int], tuple[Tensor, Tensor]]:
    """The generator of a data set, a function of the part's name and of the number of sequences; checked."""
    found = re.fullmatch(r"(recall|copying):(\d+)|(listops)", data)
    if found is None:
        raise ValueError(f"generated sequences are recall:PAIRS, copying:TOKENS or listops; found {data!r}")
    if found[3]:
        if length < 8:
            raise ValueError(f"{data} needs a length of at least 8, found {length}")
        return partial(listops, length)
    name, count = found[1], int(found[2])
    most, needed = (KEYS, 4 * count) if name == "recall" else (length, 2 * count)
    if not 1 <= count <= most or needed > length:
        raise ValueError(
            f"{data} needs from 1 to {most} {'pairs' if name == 'recall' else 'tokens'} and a length of at least "
            f"{needed}, found a length of {length}: set --length, or ask for fewer"
        )
    return partial(recall if name == "recall" else copying, count, length)


def _made(ids: Tensor, labels: Tensor) -> Answers:
    return Answers(ids.numpy().astype(np.int16), labels.numpy().astype(np.int16))


def _save(answers: Answers, path: Path) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, ids=answers.ids, labels=answers.answers)


def _load(path: Path) -> Answers:
    with np.load(path) as arrays:
        return Answers(arrays["ids"], arrays["labels"])


def recall(pairs: int, length: int, part: str, count: int) -> tuple[Tensor, Tensor]:
    """Multi-query associative recall: sequences and labels ``[count, length]``.

    A sequence begins with ``key value key value …``. After the pairs follow places for two tokens. In the places drawn
    with probability ∝ place^(POWER − 1), without replacement, stand the keys, in random order, each before
    ``[MASK]``; the others have random values.
    """
    draw = generator("recall", pairs, length, part)
    keys = torch.rand(count, KEYS, generator=draw).argsort(dim=1)[:, :pairs]
    values = torch.randint(KEYS, (count, pairs), generator=draw)
    ids = FIRST + KEYS + torch.randint(KEYS, (count, length), generator=draw)
    labels = torch.full((count, length), IGNORED)
    ids[:, 0 : 2 * pairs : 2], ids[:, 1 : 2 * pairs : 2] = FIRST + keys, FIRST + KEYS + values
    weight = torch.arange(1, length // 2 - pairs + 1, dtype=torch.float64) ** (POWER - 1)
    place = torch.multinomial(weight.expand(count, -1), pairs, generator=draw)
    query = 2 * (pairs + place)
    ids.scatter_(1, query, FIRST + keys).scatter_(1, query + 1, MASK)
    return ids, labels.scatter_(1, query + 1, FIRST + KEYS + values)


def copying(tokens: int, length: int, part: str, count: int) -> tuple[Tensor, Tensor]:
    """Selective copying: sequences and labels ``[count, length]``; the last ``tokens`` places repeat the tokens."""
    draw = generator("copying", tokens, length, part)
    words = FIRST + 1 + torch.randint(COPIED, (count, tokens), generator=draw)
    place = torch.rand(count, length - tokens, generator=draw).argsort(dim=1)[:, :tokens].sort(dim=1).values
    ids, labels = torch.full((count, length), FIRST), torch.full((count, length), IGNORED)
    ids.scatter_(1, place, words)
    ids[:, -tokens:], labels[:, -tokens:] = MASK, words
    return ids, labels


def listops(length: int, part: str, count: int) -> tuple[Tensor, Tensor]:
    """ListOps: ``[MASK]`` and an expression of ``length / 4`` to ``length − 1`` tokens; labels ``[count, length]``."""
    draw = random.Random(seed_of("listops", length, part))
    numbers = {word: FIRST + place for place, word in enumerate(WORDS["listops"])}
    ids, labels = torch.full((count, length), PAD), torch.full((count, length), IGNORED)
    ids[:, 0] = MASK
    with progress(f"drawing {count:,} expressions of up to {length:,} tokens", count) as advance:
        for row in range(count):
            words, value = expression(draw, length // 4, length - 1)
            ids[row, 1 : 1 + len(words)] = torch.tensor([numbers[word] for word in words])
            labels[row, 0] = numbers[str(value)]
            advance(1)
    return ids, labels


def expression(draw: random.Random, least: int, most: int) -> tuple[list[str], int]:
    """A random expression of ``least`` to ``most`` tokens, and its value."""
    while True:
        words: list[str] = []
        value = _grow(draw, words, 1, most)
        if value is not None and len(words) >= least:
            return words, value


def _grow(draw: random.Random, words: list[str], depth: int, most: int) -> int | None:
    """Append a random expression to ``words``; its value, or ``None`` as soon as there are more than ``most`` words."""
    if depth >= DEPTH or draw.random() > OPERATES:
        digit = draw.randrange(10)
        words.append(str(digit))
        return digit if len(words) <= most else None
    name, values = draw.choice(OPERATORS), []
    words.append(name)
    for _ in range(draw.randint(2, ARGUMENTS)):
        value = _grow(draw, words, depth + 1, most)
        if value is None:
            return None
        values.append(value)
    words.append(CLOSE)
    return _VALUES[name](values) if len(words) <= most else None


_VALUES: dict[str, Callable[[list[int]], int]] = {
    "[MAX": max,
    "[MIN": min,
    "[MED": lambda values: int(np.median(values)),
    "[SM": lambda values: sum(values) % 10,
}


def word_tokenizer(words: list[str]) -> PreTrainedTokenizerBase:
    """A tokenizer of words between spaces, with BERT's special tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **dict(zip(names, SPECIAL, strict=True)))
