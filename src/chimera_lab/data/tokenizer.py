"""Tokenizers: given ones, and WordPiece vocabularies made for a corpus."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chimera_lab.data.cache import cached
from chimera_lab.data.corpus import Corpus
from chimera_lab.data.files import read_lines
from chimera_lab.data.progress import progress

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_MOST_LETTERS = 1000
#: WordPiece takes no longer words than 100 letters, and the trainer's time grows with the square of a word's length.
_TOO_LONG = re.compile(r"[^\s!-/:-@\[-`{-~]{101,}")
_NEEDED = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


def load_tokenizer(name: str, corpus: Corpus, vocab_size: int) -> PreTrainedTokenizerBase:
    """A tokenizer of `transformers`.

    Args:
        name: ``auto`` for a vocabulary made for the corpus; a vocab.txt; a folder with one or with a saved tokenizer;
            or a name on the hub.
        corpus: what to make a vocabulary for.
        vocab_size: of the vocabulary to be made.
    """
    if name == "auto":
        return _bert_tokenizer(cached("vocab.txt", (corpus.key, vocab_size), lambda p: _make(corpus, vocab_size, p)))
    path = Path(name).expanduser()
    if path.is_file():
        return _bert_tokenizer(path)
    if path.is_dir() and (path / "vocab.txt").is_file() and not (path / "tokenizer.json").is_file():
        return _bert_tokenizer(path / "vocab.txt")
    return _checked(_saved(path) if path.is_dir() else _from_hub(name), name)


def _bert_tokenizer(path: Path) -> PreTrainedTokenizerBase:
    """WordPiece as BERT has it on a vocabulary with a word on each line; without capitals, if no word has any."""
    from transformers import BertTokenizer

    words = [line.rstrip("\r\n") for _, line in read_lines(path)]
    missing = [word for word in _SPECIAL if word not in words]
    if missing:
        raise ValueError(f"{path} is not a vocabulary of BERT's kind: it lacks {', '.join(missing)}")
    vocabulary = {word: number for number, word in enumerate(words)}
    if len(vocabulary) < len(words):
        twice = next(word for number, word in enumerate(words) if vocabulary[word] != number)
        raise ValueError(f"{path} is not a vocabulary: it has {twice!r} twice; remove one of them")
    small = all(word == word.lower() for word in words if not word.startswith("["))
    return BertTokenizer(vocab=vocabulary, do_lower_case=small)


def _saved(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a damaged file may raise anything, and Rust's panics are no Exception
        raise ValueError(
            f"{folder} holds neither a vocab.txt nor a saved tokenizer that can be read ({type(error).__name__})"
        ) from error


def _from_hub(name: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name)
    except Exception as error:  # network, hub: of many kinds
        raise ValueError(
            f"there is no tokenizer {name!r}: it is neither a file nor a folder nor to be had from the hub "
            f"({type(error).__name__}); give a vocab.txt or a folder with --tokenizer, or auto for a new vocabulary"
        ) from error


def _checked(tokenizer: Any, name: str) -> PreTrainedTokenizerBase:
    missing = [token for token in _NEEDED if getattr(tokenizer, token) is None]
    if missing:
        raise ValueError(f"the tokenizer {name} lacks {', '.join(missing)}, needed to mask words; use another")
    if (largest := max(tokenizer.get_vocab().values())) >= len(tokenizer):
        raise ValueError(f"the tokenizer {name} has {len(tokenizer)} words, but numbers up to {largest}; use another")
    return tokenizer


def _make(corpus: Corpus, vocab_size: int, path: Path) -> None:
    """Write a WordPiece vocabulary, the same whenever it is made.

    The trainer numbers the letters in the order of a hash table, which differs from run to run, and breaks ties by
    number. So it is given all letters, sorted, as if they were special words.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    tokenizer: Any = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    normalizer: Any = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    counts = Counter[str]()
    with progress(f"making a vocabulary of {vocab_size} words for {corpus}", corpus.size) as advance:
        for text in _texts(corpus):
            counts.update(normalizer.normalize_str(text))
            advance(len(text))
    letters = sorted(sorted(filter(_is_visible, counts), key=lambda c: (-counts[c], c))[:_MOST_LETTERS])
    first = [*_SPECIAL, *letters, *(f"##{letter}" for letter in letters if not _stands_alone(letter))]
    others = {ord(c): " " for c in set(counts).difference(letters)}
    trainer = trainers.WordPieceTrainer(
        vocab_size=max(vocab_size, len(first)), special_tokens=first, show_progress=False
    )
    tokenizer.train_from_iterator((normalizer.normalize_str(t).translate(others) for t in _texts(corpus)), trainer)
    words = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    path.write_text("".join(f"{word}\n" for word, _ in words), encoding="utf-8")


def _texts(corpus: Corpus) -> Iterator[str]:
    return (_TOO_LONG.sub(" ", piece.replace("<unk>", "")) for piece in corpus.pieces() if piece is not None)


def _is_visible(letter: str) -> bool:
    return not letter.isspace() and unicodedata.category(letter)[0] != "C"


def _stands_alone(letter: str) -> bool:
    """Whether a letter is punctuation, which is always a separate word."""
    return unicodedata.category(letter)[0] == "P" or letter in string.punctuation
