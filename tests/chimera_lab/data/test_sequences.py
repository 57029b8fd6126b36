"""Generated sequences: their answers are recomputed from the tokens by other means."""

import statistics

import numpy as np
import pytest
import torch

from chimera_lab.data import sequences
from chimera_lab.data.sequences import FIRST, MASK, PAD, SPECIAL, WORDS, load_sequences

SMALL = 200


@pytest.fixture(autouse=True)
def few(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sequences, "TRAIN", SMALL)
    monkeypatch.setattr(sequences, "TEST", 50)


def words_of(part, task):
    """Words and answers of each sequence."""
    words = [*SPECIAL, *WORDS[task]]
    for index in range(len(part)):
        sample = part.sample(index)
        ids, labels = sample["input_ids"].tolist(), sample["labels"].tolist()
        assert ids.count(MASK) == sum(label >= 0 for label in labels)
        yield [words[i] for i in ids], [words[label] if label >= 0 else None for label in labels]


@pytest.mark.parametrize(("pairs", "length"), [(8, 64), (1, 4), (5, 23), (16, 64)])
def test_recall_asks_for_the_value_of_each_key_once(pairs, length):
    for words, answers in words_of(load_sequences(f"recall:{pairs}", length).train, "recall"):
        table = dict(zip(words[0 : 2 * pairs : 2], words[1 : 2 * pairs : 2], strict=True))
        assert len(table) == pairs
        asked = {words[t - 1]: answer for t, answer in enumerate(answers) if answer is not None}
        assert asked == table
        assert len(words) == length


def test_the_gaps_of_recall_follow_a_power_law():
    """Of 28 places, place p is drawn first with probability ∝ p^(−0.99): the first has a quarter."""
    ids, _ = sequences.recall(1, 58, "train", 4000)
    places = (ids == MASK).nonzero()[:, 1].sub(3).div(2).long()
    weights = np.arange(1, 29) ** -0.99
    expected = weights / weights.sum()
    found = torch.bincount(places, minlength=28).numpy() / 4000
    assert np.abs(found - expected).max() < 4 * np.sqrt(0.25 * 0.75 / 4000)


@pytest.mark.parametrize(("tokens", "length"), [(8, 64), (1, 2), (7, 14), (5, 33)])
def test_copying_repeats_the_tokens_in_their_order(tokens, length):
    for words, answers in words_of(load_sequences(f"copying:{tokens}", length).train, "copying"):
        seen = [word for word in words if word.startswith("t")]
        assert seen == answers[-tokens:]
        assert words[-tokens:] == ["[MASK]"] * tokens
        assert words.count("noise") == length - 2 * tokens


def evaluate(words):
    """The value of an expression, with a stack instead of recursion."""
    operators = {"[MAX": max, "[MIN": min, "[MED": lambda v: int(statistics.median(v)), "[SM": lambda v: sum(v) % 10}
    stack = [[]]
    for word in words:
        if word in operators:
            stack.append([word])
        elif word == "]":
            name, *values = stack.pop()
            assert 2 <= len(values) <= 10
            stack[-1].append(operators[name](values))
        else:
            stack[-1].append(int(word))
        assert len(stack) <= 10
    ((value,),) = stack
    return value


@pytest.mark.parametrize("length", [8, 50, 201])
def test_the_answers_of_listops(length):
    seen = set()
    for words, answers in words_of(load_sequences("listops", length).train, "listops"):
        expression = [word for word in words[1:] if word != "[PAD]"]
        assert words[0] == "[MASK]"
        assert words[1 + len(expression) :] == ["[PAD]"] * (length - 1 - len(expression))
        assert length // 4 <= len(expression) <= length - 1
        assert answers == [str(evaluate(expression)), *[None] * (length - 1)]
        seen.update(expression)
    assert seen == set(WORDS["listops"])


@pytest.mark.parametrize("data", ["recall:4", "copying:4", "listops"])
def test_sequences_are_a_function_of_name_length_and_part(data, tmp_path, monkeypatch):
    first = load_sequences(data, 32)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    second, longer = load_sequences(data, 32), load_sequences(data, 40)
    assert np.array_equal(first.train.ids, second.train.ids)
    assert np.array_equal(first.test.answers, second.test.answers)
    assert not np.array_equal(first.train.ids[:50], first.test.ids)
    assert longer.train.ids.shape == (SMALL, 40)
    assert len({first.train.content(n) for n in range(SMALL)}) > 0.9 * SMALL


def test_the_tokenizer_reads_what_it_writes(tmp_path):
    from transformers import AutoTokenizer

    data = load_sequences("listops", 32)
    data.tokenizer.save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    ids = data.train.sample(3)["input_ids"].tolist()
    assert tokenizer(tokenizer.decode(ids), add_special_tokens=False)["input_ids"] == ids
    assert len(tokenizer) == FIRST + len(WORDS["listops"])
    assert tokenizer.pad_token_id == PAD


@pytest.mark.parametrize(
    ("data", "length", "message"),
    [
        ("recall", 64, "recall:PAIRS, copying:TOKENS or listops; found 'recall'"),
        ("listops:3", 64, "recall:PAIRS, copying:TOKENS or listops; found 'listops:3'"),
        ("recall:0", 64, "from 1 to 128 pairs"),
        ("recall:129", 2000, "from 1 to 128 pairs"),
        ("recall:8", 31, "a length of at least 32, found a length of 31"),
        ("copying:8", 15, "a length of at least 16, found a length of 15"),
        ("listops", 7, "a length of at least 8, found 7"),
    ],
)
def test_bad_names_and_lengths(data, length, message):
    with pytest.raises(ValueError, match=message):
        load_sequences(data, length)
