"""Text: corpora and what is wrong with files, vocabularies, blocks, masks."""

import gzip
import json
import os
from pathlib import Path

import pytest
import torch

from chimera_lab.data.corpus import load_corpora
from chimera_lab.data.random import seeded
from chimera_lab.data.text import IGNORED, Masked, load_text
from chimera_lab.data.tokenizer import load_tokenizer

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "one", "two", "three", "four", "five")
SENTENCE = "one two three four five "


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "chimera"


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(WORDS) + "\n")
    return str(path)


def folder(tmp_path, **files):
    """A folder of files; ``train_txt="…"`` is train.txt."""
    home = tmp_path / "data"
    home.mkdir()
    for name, content in files.items():
        path = home / name.replace("_", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(home)


def words_of(data, vocabulary, length=7, **options):
    text = load_text(data, length, vocabulary, 0, **options)
    return [[text.tokenizer.decode(part.sample(n)) for n in range(len(part))] for part in (text.train, text.test)]


# Corpora


def test_text_files_are_cut_into_blocks(tmp_path, vocabulary):
    data = folder(tmp_path, train_txt="one two\n\nthree Four\n \nfive one two three <unk> nine", valid_txt=SENTENCE)
    train, test = words_of(data, vocabulary)
    assert train == ["[CLS] one two three four five [SEP]", "[CLS] one two three [UNK] [UNK] [SEP]"]
    assert test == ["[CLS] one two three four five [SEP]"]


def test_documents_are_set_apart(tmp_path, vocabulary):
    rows = "".join(json.dumps({"text": text}) + "\n" for text in ("one two", "three", "four five"))
    data = folder(tmp_path, train_jsonl=rows, test_jsonl=rows)
    train, test = words_of(data, vocabulary, length=6)
    assert train == test == ["[CLS] one two [SEP] three [SEP]", "[CLS] [SEP] four five [SEP] [SEP]"]


def test_parquet(tmp_path, vocabulary):
    import pyarrow
    from pyarrow import parquet

    home = tmp_path / "data"
    for part in ("train", "test"):
        (home / part).mkdir(parents=True)
        table = pyarrow.table({"body": ["one two", "three four five"], "n": [1, 2]})
        parquet.write_table(table, home / part / "0001.parquet")
    train, test = words_of(str(home), vocabulary, length=8, text_column="body")
    assert train == test == ["[CLS] one two [SEP] three four five [SEP]"]
    with pytest.raises(ValueError, match=r"has no 'text', but 'body', 'n'; name the one .* --text-column"):
        words_of(str(home), vocabulary)


def test_a_parquet_file_that_is_damaged_inside(tmp_path, vocabulary):
    import pyarrow
    from pyarrow import parquet

    home = tmp_path / "data"
    home.mkdir()
    rows = [f"one two {n}" for n in range(500)]
    parquet.write_table(pyarrow.table({"text": rows}), home / "train.parquet", write_page_checksum=True)
    content = bytearray((home / "train.parquet").read_bytes())
    content[400:420] = bytes(20)
    (home / "train.parquet").write_bytes(content)
    with pytest.raises(ValueError, match=r"train\.parquet is damaged: .*; copy it again"):
        words_of(str(home), vocabulary)


def test_test_files_come_before_validation_files_and_a_tenth_is_held_out_otherwise(tmp_path, vocabulary):
    data = folder(tmp_path, test_txt="one " * 5, valid_txt="two " * 5, train_txt="three " * 5)
    assert words_of(data, vocabulary)[1] == ["[CLS] one one one one one [SEP]"]
    file = tmp_path / "alone.txt"
    file.write_text(SENTENCE * 20)
    train, test = words_of(str(file), vocabulary)
    assert (len(train), len(test)) == (18, 2)


@pytest.mark.parametrize("length", [5, 7, 12, 100])
def test_text_held_out_is_the_same_at_any_length(length, tmp_path, vocabulary):
    """A model trained on blocks of one length is not tested on its training text in blocks of another."""
    file = tmp_path / "alone.txt"
    file.write_text(("one " * 90 + "two " * 10) * 10 + "three " * 57)
    text = load_text(str(file), length, vocabulary, 0)
    words = [[int(word) for n in range(len(part)) for word in part.sample(n)[1:-1]] for part in (text.train, text.test)]
    assert [set(part) for part in words] == [{5}, {6}]
    assert [len(part) for part in words] == [900 // (length - 2) * (length - 2), 100 // (length - 2) * (length - 2)]
    assert len(text.unseen) == 1058 // (length - 2)


@pytest.mark.parametrize(
    ("name", "is_test"),
    [
        ("wiki.test.tokens", True),
        ("dev/a.txt", True),
        ("validation-00000-of-00001.jsonl", True),
        ("VAL.txt", True),
        ("devices.txt", False),
        ("values.txt", False),
        ("testing.txt", False),
        ("contest/a.txt", False),
    ],
)
def test_files_for_testing_are_known_by_whole_words(name, is_test, tmp_path):
    for file in ("first.txt", name):
        (tmp_path / "data" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / file).write_text("one")
    train, test = load_corpora(str(tmp_path / "data"), "text")
    assert ("first.txt" in str(train.files[0]) and len(train.files) == 1 and test is not None) == is_test
    assert {path.name for part in (train, test) if part for path in part.files} == {"first.txt", Path(name).name}


def test_compressed_files_other_endings_and_what_is_no_text(tmp_path, vocabulary):
    data = folder(
        tmp_path,
        train_txt_gz=gzip.compress(SENTENCE.encode()),
        test_jsonl_gz=gzip.compress(json.dumps({"text": SENTENCE}).encode()),
        vocab_txt="[PAD]\n",
    )
    assert words_of(data, vocabulary) == [["[CLS] one two three four five [SEP]"]] * 2
    assert len(load_text(data, 5, "auto", 100, max_tokens=3).train) == 1  # a file is no stream
    notes = tmp_path / "notes.md"
    notes.write_text(SENTENCE * 10)
    assert len(words_of(str(notes), vocabulary)[0]) == 9
    (tmp_path / "data" / "train.txt.gz").write_bytes(gzip.compress(SENTENCE.encode() * 100)[:-20])
    with pytest.raises(ValueError, match=r"train\.txt\.gz is damaged: .*; copy it again"):
        words_of(data, vocabulary)


def test_wikitext_is_looked_for_in_the_cache(vocabulary, cache):
    (cache / "wikitext-2").mkdir(parents=True)
    for part in ("train", "valid", "test"):
        (cache / "wikitext-2" / f"{part}.txt").write_text(SENTENCE)
    assert tuple(words_of("wikitext-2", vocabulary)) == (["[CLS] one two three four five [SEP]"],) * 2


BAD = {
    "an empty file": ({"train_txt": ""}, r"train\.txt is empty: remove it, or write text into it"),
    "blank lines": ({"train_txt": " \n\n"}, r"train\.txt is empty"),
    "no rows": ({"train_jsonl": "\n"}, r"train\.jsonl is empty"),
    "not UTF-8": (
        {"train_txt": b"one\ncaf\xe9 two\n"},
        r"train\.txt is not UTF-8 text: line 2 has the byte 0xe9 .* iconv",
    ),
    "no column": ({"train_jsonl": '{"body": "one", "id": 3}\n'}, r"has no 'text', but 'body', 'id'; .* --text-column"),
    "no text": ({"train_jsonl": '{"text": 3}\n'}, r"'text' must be text, found 3 in line 1 of"),
    "no object": ({"train_jsonl": '["text"]\n'}, r"line 1 of .* must be an object with the key 'text'"),
    "no JSON": ({"train_jsonl": '{"text": "one"}\n{"text": \n'}, r"line 2 of .* is not JSON"),
    "nested JSON": (
        {"train_jsonl": '{"text": ' + "[" * 100_000 + "\n"},
        r"line 1 of .*train\.jsonl is not JSON: it is nested too deeply",
    ),
    "a long number": (
        {"train_jsonl": '{"text": ' + "1" * 5000 + "}\n"},
        r"line 1 of .*train\.jsonl is not JSON: Exceeds",
    ),
    "no gzip": ({"train_txt_gz": b"one"}, r"train\.txt\.gz is damaged: Not a gzipped file"),
    "a damaged gzip": (
        {"train_txt_gz": gzip.compress(SENTENCE.encode() * 99)[:20] + b"\xff" * 99},
        r"train\.txt\.gz is damaged: .*; copy it again",
    ),
    "no parquet": ({"train_parquet": "one"}, r"train\.parquet is not a parquet file"),
    "nothing": ({"train_csv": "one"}, r"has no texts: looked for files with one of the endings \.txt"),
    "tests alone": ({"test_txt": "one"}, r"all files in .* are for testing"),
    "too little": (
        {"train_txt": "one two", "test_txt": "one"},
        r"has 3 tokens, less than a block of 7 has.* 5 or less",
    ),
    "too little to hold out": (
        {"train_txt": SENTENCE * 8},
        r"the tenth of .* held out for testing has 4 tokens, less than a block of 7 has: .* length to 6 or less",
    ),
    "nothing to hold out": ({"train_txt": SENTENCE}, r"has 0 tokens, less than a block of 7 has: give more text$"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_files(what, tmp_path, vocabulary, cache):
    files, message = BAD[what]
    with pytest.raises(ValueError, match=message):
        words_of(folder(tmp_path, **files), vocabulary)
    assert not list(cache.glob("*.part")), "what was begun is removed"


def test_wikitext_is_downloaded_through_datasets(monkeypatch, vocabulary, cache):
    import datasets

    lines = {"text": ["", " = A title = \n", "", f" {SENTENCE} \n"]}
    monkeypatch.setattr(datasets, "load_dataset", lambda *names: dict.fromkeys(("train", "validation", "test"), lines))
    words = tuple(words_of("wikitext-2", vocabulary))
    assert (cache / "wikitext-2" / "valid.txt").read_text() == f" = A title = \n {SENTENCE} \n"
    monkeypatch.delattr(datasets, "load_dataset")  # the second time the files are there
    assert tuple(words_of("wikitext-2", vocabulary)) == words


def test_what_is_not_there(monkeypatch):
    import datasets

    def fail(*args, **kwargs):
        raise ConnectionError

    monkeypatch.setattr(datasets, "load_dataset", fail)
    with pytest.raises(ValueError, match="there is no data set, no file and no folder 'pidoc'; data is pydoc"):
        load_corpora("pidoc", "text")
    with pytest.raises(ValueError, match=r"WikiText-2 was looked for in .* with --data FOLDER"):
        load_corpora("wikitext-2", "text")
    with pytest.raises(ValueError, match=r"C4 could not be streamed .* with --data FOLDER"):
        next(load_corpora("c4", "text").train.pieces())
    with pytest.raises(ValueError, match="a vocabulary cannot be made for a stream, c4 train: give one with"):
        load_text("c4", 128, "auto", 100, max_tokens=1000)


def test_c4_is_streamed_as_far_as_needed(monkeypatch, vocabulary):
    import datasets

    taken = []

    def stream(name, config, split, streaming):
        assert (name, config, streaming) == ("allenai/c4", "en", True)
        for number in range(10**9):
            taken.append(split)
            yield {"text": SENTENCE, "url": number}

    monkeypatch.setattr(datasets, "load_dataset", stream)
    text = load_text("c4", 8, vocabulary, 0, max_tokens=60)
    assert (len(text.train), len(text.test)) == (10, 10)
    assert taken.count("train") <= 1000
    assert text.tokenizer.decode(text.train.sample(9)) == "[CLS] one two three four five [SEP] [SEP]"


@pytest.fixture
def interrupted(tmp_path, vocabulary, monkeypatch):
    """A folder whose tokenising was interrupted at the fourth thousand lines, and what was tokenised, call by call."""
    from chimera_lab.data import tokens as module

    data = folder(tmp_path, train_txt="one two three four five\n" * 5000, test_txt=SENTENCE)
    encode, calls = module._encode, []

    def interrupt(pieces, tokenizer):
        calls.append(len(pieces))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return encode(pieces, tokenizer)

    monkeypatch.setattr(module, "SAVE_SECONDS", 0)
    monkeypatch.setattr(module, "_encode", interrupt)
    with pytest.raises(KeyboardInterrupt):
        words_of(data, vocabulary)
    return data, calls


def test_an_interrupted_tokenising_goes_on(interrupted, vocabulary, cache):
    data, calls = interrupted
    assert words_of(data, vocabulary)[0] == ["[CLS] one two three four five [SEP]"] * 5000
    assert calls[4:] == [1000, 1000, 1, 2], "three thousand lines were there"
    assert not [path for end in ("part", "progress", "note") for path in cache.glob(f"*.{end}")]


def cut(path):
    path.write_bytes(path.read_bytes()[:100])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def exchange(path):
    path.write_bytes(path.read_bytes().replace(b"30000 ", b"30000 3", 1))


@pytest.mark.parametrize(
    ("ending", "damage"),
    [("part", cut), ("part", flip), ("progress", cut), ("progress", flip), ("progress", exchange)],
)
def test_tokens_that_are_not_as_they_were_written_are_made_again(ending, damage, interrupted, vocabulary, cache):
    data, calls = interrupted
    (path,) = cache.glob(f"*.{ending}")
    damage(path)
    assert words_of(data, vocabulary)[0] == ["[CLS] one two three four five [SEP]"] * 5000
    assert calls[4:] == [1000] * 5 + [1, 2]


@pytest.mark.parametrize("damage", [cut, flip])
def test_a_cache_that_was_damaged_is_made_anew(damage, tmp_path, cache):
    data = folder(tmp_path, train_txt=SENTENCE * 30, test_txt=SENTENCE * 30)
    first = words_of(data, "auto")
    for path in [*cache.glob("tokens-*.bin"), *cache.glob("vocab-*.txt"), *cache.glob("*.blake2b")]:
        damage(path)
        assert words_of(data, "auto") == first


def test_text_that_changed_is_noticed_whatever_its_dates(tmp_path, vocabulary):
    data = folder(tmp_path, train_txt="one " * 10, test_txt=SENTENCE)
    words_of(data, vocabulary)
    path = tmp_path / "data" / "train.txt"
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_text("two " * 10)
    os.utime(path, ns=times)
    assert words_of(data, vocabulary)[0] == ["[CLS] two two two two two [SEP]"] * 2


def test_a_line_of_a_million_characters(tmp_path, vocabulary, capsys):
    data = folder(tmp_path, train_txt="one two three four " * 52_632 + "x" * 10**6 + "\n", test_txt=SENTENCE * 99)
    text = load_text(data, 128, vocabulary, 0)
    assert len(text.train) == (4 * 52_632 + 2) // 126  # the word of a million letters is unknown; then the end
    err = capsys.readouterr().err
    assert "train.txt has 2,000,009 characters, and a word of 1,000,000; is it text?" in err
    assert err.count("is it text?") == 1


@pytest.mark.parametrize("name", ["texts.csv", "texts.tsv", "texts.csv.gz", "texts.txt"])
def test_a_table_is_said_to_be_read_as_plain_text(name, tmp_path, vocabulary, capsys):
    path, content = tmp_path / name, b"text,label\n" + b"one two,three\n" * 40
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    for _ in range(2):
        assert len(load_text(str(path), 8, vocabulary, 0).train)
    told = capsys.readouterr().err.count(f"{path} is read as plain text, commas and labels included; to train on its")
    assert told == (name != "texts.txt")


def test_a_vocabulary_for_a_line_of_a_million_letters(tmp_path):
    letters = torch.randint(97, 123, (10**6,), generator=torch.Generator().manual_seed(0))
    data = folder(tmp_path, train_txt=bytes(letters.tolist()).decode() + " one two three" * 99)
    words = load_text(data, 16, "auto", 200).tokenizer.get_vocab()
    assert {"one", "two", "three"} < words.keys()
    assert "##q" not in words  # a letter of that line alone


def test_tokens_are_found_again_unless_something_changed(tmp_path, vocabulary, cache, capsys):
    data = folder(tmp_path, train_txt=SENTENCE, test_txt=SENTENCE)
    first = words_of(data, vocabulary)
    assert capsys.readouterr().err.count("tokenising") == 2
    assert words_of(data, vocabulary) == first
    assert "tokenising" not in capsys.readouterr().err
    (tmp_path / "data" / "train.txt").write_text("five " * 10)
    assert words_of(data, vocabulary)[0] == ["[CLS] five five five five five [SEP]"] * 2
    assert capsys.readouterr().err.count("tokenising") == 1
    assert len(list(cache.glob("tokens-*.bin"))) == 3


def test_a_cache_that_cannot_be_written(tmp_path, vocabulary, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    data = folder(tmp_path, train_txt=SENTENCE, test_txt=SENTENCE)
    with pytest.raises(OSError, match=r"cannot write .*; make room there, or name another place with XDG_CACHE_HOME"):
        words_of(data, vocabulary)


# Vocabularies


@pytest.fixture(scope="module")
def pydoc(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return load_text("pydoc", 64, "auto", 1000)


def test_a_vocabulary_is_made_for_a_corpus(pydoc, cache):
    tokenizer = pydoc.tokenizer
    assert len(tokenizer) == 1000
    assert [tokenizer.convert_ids_to_tokens(n) for n in range(5)] == list(WORDS[:5])
    assert tokenizer.tokenize("The Function") == ["the", "function"]
    assert len(pydoc.train) + len(pydoc.test) > 1500
    assert abs(len(pydoc.test) - (len(pydoc.train) + len(pydoc.test)) / 10) < 1
    # made again, in another cache, it is the same
    again = load_tokenizer("auto", load_corpora("pydoc", "text").train, 1000)
    assert again.get_vocab() == tokenizer.get_vocab()
    assert len(list(cache.glob("vocab-*.txt"))) == 1


def test_given_tokenizers(tmp_path, vocabulary):
    corpus = load_corpora("pydoc", "text").train
    tokenizer = load_tokenizer(vocabulary, corpus, 0)
    tokenizer.save_pretrained(tmp_path / "saved")
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "vocab.txt").write_text("\n".join(WORDS))
    for name in (tmp_path / "saved", alone):
        assert load_tokenizer(str(name), corpus, 0)("Two three!")["input_ids"] == [2, 6, 7, 1, 3]


def test_capitals_are_kept_if_the_vocabulary_has_any(tmp_path, vocabulary):
    corpus = load_corpora("pydoc", "text").train
    (tmp_path / "cased.txt").write_text("\n".join([*WORDS, "June"]))
    assert load_tokenizer(str(tmp_path / "cased.txt"), corpus, 0).tokenize("June Two two") == ["June", "[UNK]", "two"]
    assert load_tokenizer(vocabulary, corpus, 0).tokenize("June Two two") == ["[UNK]", "two", "two"]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    assert load_tokenizer(str(tmp_path), corpus, 0).tokenize("Two") == ["two"]


def test_text_without_words_is_refused(tmp_path):
    data = folder(tmp_path, train_txt="<unk> " * 600)
    text = load_text(data, 16, "auto", 100)
    with pytest.raises(ValueError, match="the vocabulary has no words, only special tokens"):
        Masked(text.train, text.tokenizer, 0.3)


def test_bad_tokenizers(tmp_path, vocabulary):
    from transformers import BertTokenizer

    corpus = load_corpora("pydoc", "text").train
    (tmp_path / "words.txt").write_text("one\ntwo\n[PAD]\n")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(ValueError, match=r"words.txt is not a vocabulary .*lacks \[UNK\], \[CLS\], \[SEP\], \[MASK\]"):
        load_tokenizer(str(tmp_path / "words.txt"), corpus, 0)
    with pytest.raises(ValueError, match=r"bytes.txt is not UTF-8 text: line 1 has the byte 0xff"):
        load_tokenizer(str(tmp_path / "bytes.txt"), corpus, 0)
    with pytest.raises(ValueError, match=r"nothing holds neither a vocab\.txt nor a saved tokenizer"):
        load_tokenizer(str(tmp_path / "nothing"), corpus, 0)
    (tmp_path / "twice.txt").write_text("\n".join([*WORDS, "two"]))
    with pytest.raises(ValueError, match=r"twice.txt is not a vocabulary: it has 'two' twice"):
        load_tokenizer(str(tmp_path / "twice.txt"), corpus, 0)
    gap = BertTokenizer(vocab={word: number + 9 * (number > 7) for number, word in enumerate(WORDS)})
    gap.save_pretrained(tmp_path / "gap")
    with pytest.raises(ValueError, match="has 10 words, but numbers up to 18; use another"):
        load_tokenizer(str(tmp_path / "gap"), corpus, 0)
    lacking = BertTokenizer(vocab=vocabulary)
    lacking.mask_token = None
    lacking.save_pretrained(tmp_path / "lacking")
    with pytest.raises(ValueError, match="lacks mask_token"):
        load_tokenizer(str(tmp_path / "lacking"), corpus, 0)


# Masks


def drawn(samples, index, *seed):
    with seeded(*seed):
        return samples.sample(index)


@pytest.mark.parametrize("rate", [0.15, 0.3])
def test_masks_have_their_rates(pydoc, rate):
    samples = Masked(pydoc.train, pydoc.tokenizer, rate)
    special = torch.tensor(pydoc.tokenizer.all_special_ids)
    words = chosen = masked = kept = 0
    for index in range(400):
        before = pydoc.train.sample(index)
        sample = drawn(samples, index, 0, index)
        ids, labels = sample["input_ids"], sample["labels"]
        asked = labels != IGNORED
        assert torch.equal(labels[asked], before[asked])
        assert torch.equal(ids[~asked], before[~asked])
        assert not torch.isin(before[asked], special).any()
        assert torch.isin(ids[asked][ids[asked] != pydoc.tokenizer.mask_token_id], special).sum() == 0
        words += int((~torch.isin(before, special)).sum())
        chosen += int(asked.sum())
        masked += int((ids[asked] == pydoc.tokenizer.mask_token_id).sum())
        kept += int((ids[asked] == before[asked]).sum())
    assert abs(chosen / words - rate) < 0.005
    assert abs(masked / chosen - 0.8) < 0.03
    assert abs(kept / chosen - 0.1) < 0.03


def test_masks_are_a_function_of_seed_epoch_and_index(pydoc):
    samples = Masked(pydoc.train, pydoc.tokenizer, 0.3)
    first, again, other = (drawn(samples, 5, *seed) for seed in ((0, 1, 5), (0, 1, 5), (0, 2, 5)))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["labels"], other["labels"])


def test_every_block_has_something_to_guess_if_it_has_words(tmp_path, vocabulary):
    data = folder(tmp_path, train_txt="nine nine nine nine one " * 2, test_txt="nine " * 5)
    text = load_text(data, 7, vocabulary, 0)
    sample = drawn(Masked(text.train, text.tokenizer, 0.01), 0, 0)
    assert sample["labels"].tolist() == [IGNORED] * 5 + [5, IGNORED]
    nothing = drawn(Masked(text.test, text.tokenizer, 0.5), 0, 0)
    assert (nothing["labels"] == IGNORED).all()
