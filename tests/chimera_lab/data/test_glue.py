"""GLUE: the official files of every task, and what may be wrong with them."""

import pytest
import torch

from chimera_lab.data.glue import TASKS, Texts, Tokenised, load_glue

# Two rows of each task, in the columns of its official training file; of the development file where it differs.
FILES = {
    "cola": ("", "gj04\t1\t\tOne two.", "gj04\t0\t*\tTwo one."),
    "sst2": ("sentence\tlabel", "one two \t1", "two one\t0"),
    "mrpc": ("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", '1\t7\t8\t"one\ttwo', "0\t7\t8\ttwo\tone"),
    "qqp": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "0\t1\t2\tone\ttwo\t1", "3\t4\t5\ttwo\tone\t0"),
    "stsb": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "0\tg\tf\ty\to\ts\ts\tone\ttwo\t5.000",
        "1\tg\tf\ty\to\ts\ts\ttwo\tone\t0.25",
    ),
    "mnli": (
        "index\tpromptID\tpairID\tgenre\tp\tp\tp\tp\tsentence1\tsentence2\tlabel1\tgold_label",
        "0\t1\t1n\tg\tp\tp\tp\tp\tone\ttwo\tneutral\tneutral",
        "1\t1\t1n\tg\tp\tp\tp\tp\ttwo\tone\tentailment\tentailment",
    ),
    "qnli": ("index\tquestion\tsentence\tlabel", "0\tone\ttwo\tnot_entailment", "1\ttwo\tone\tentailment"),
    "rte": ("index\tsentence1\tsentence2\tlabel", "0\tone\ttwo\tnot_entailment", "1\ttwo\tone\tentailment"),
}
LABELS = {"mnli": [1, 0], "stsb": [5.0, 0.25]}


def write(home, name, train=None, dev=None):
    """The files of a task; rows replace those of above."""
    header, *rows = FILES[name]
    home.mkdir(parents=True, exist_ok=True)
    for file, lines in (
        ("train.tsv", rows if train is None else train),
        (TASKS[name].dev, rows if dev is None else dev),
    ):
        (home / file).write_text("".join(line + "\n" for line in ([header] if header else []) + lines), "utf-8")


@pytest.mark.parametrize("name", TASKS)
def test_official_files(name, tmp_path):
    task = TASKS[name]
    homes = tmp_path / "a" / task.folder, tmp_path / "b"
    for home, data in zip(homes, "ab", strict=True):
        write(home, name)
        train, test = load_glue(name, str(tmp_path / data))
        assert train.texts == test.texts
        assert train.labels.tolist() == LABELS.get(name, [1, 0])
        first = "".join(train.texts[0]).lower().replace('"', "")
        assert (first.startswith("one"), len(train.texts[0])) == (True, len(task.texts))
    assert train.labels.dtype == (torch.float32 if name == "stsb" else torch.int64)


def test_quotes_are_characters_and_short_rows_are_left_out(tmp_path):
    rows = [f'{n}\t1\t2\t"one {n}\ttwo "\t1' for n in range(150)]
    write(tmp_path, "qqp", train=[*rows, "150\t1\t2\tone"])
    train, _ = load_glue("qqp", str(tmp_path))
    assert (len(train.texts), train.texts[3]) == (150, ('"one 3', 'two "'))


BAD = {
    "a label outside the range": (
        "sst2",
        ["one\t2"],
        r"label must be one of 0, 1, found '2' in line 2 of .*train\.tsv",
    ),
    "in a file without header": ("cola", ["g\t1\t\tone", "g\tx\t\tone"], r"found 'x' in line 2 of"),
    "an unknown class": ("mnli", [FILES["mnli"][1].replace("neutral", "-")], r"one of entailment, .*, found '-'"),
    "a score outside the range": ("stsb", [FILES["stsb"][1].replace("5.000", "5.1")], r"from 0 to 5, found '5.1'"),
    "no score": ("stsb", [FILES["stsb"][1].replace("5.000", "")], r"from 0 to 5, found ''"),
    "no rows": ("rte", [], r"train\.tsv has no rows of 4 columns"),
    "short rows": ("rte", [*FILES["rte"][1:], "1\tone", "2\ttwo"], r"2 of 4 rows .* fewer than 4 columns"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_files(what, tmp_path):
    name, rows, message = BAD[what]
    write(tmp_path, name, train=rows)
    with pytest.raises(ValueError, match=message):
        load_glue(name, str(tmp_path))


def test_files_of_another_task_or_none(tmp_path, monkeypatch):
    write(tmp_path, "sst2")
    with pytest.raises(ValueError, match=r"has no column 'sentence1', but 'sentence', 'label'; is it .* of RTE"):
        load_glue("rte", str(tmp_path))
    (tmp_path / "train.tsv").write_bytes(b"sentence\tlabel\ncaf\xe9\t1\n")
    with pytest.raises(ValueError, match="is not UTF-8 text: line 2"):
        load_glue("sst2", str(tmp_path))
    (tmp_path / "train.tsv").write_bytes(b"")
    with pytest.raises(ValueError, match="has no column 'sentence', but nothing"):
        load_glue("sst2", str(tmp_path))
    with pytest.raises(ValueError, match=r"CoLA was looked for as train.tsv and dev.tsv in .* copy the official files"):
        load_glue("cola", str(tmp_path / "nowhere"))


def test_a_part_that_is_missing_is_named(tmp_path):
    write(tmp_path, "mnli")
    (tmp_path / "dev_matched.tsv").unlink()
    with pytest.raises(ValueError, match=r"has train\.tsv and no dev_matched\.tsv: copy all official files there"):
        load_glue("mnli", str(tmp_path))


def test_through_datasets(tmp_path, monkeypatch):
    import datasets

    monkeypatch.chdir(tmp_path)
    part = datasets.Dataset.from_dict({"sentence1": ["one"], "sentence2": ["two"], "label": [1], "idx": [0]})
    monkeypatch.setattr(datasets, "load_dataset", lambda *names: {"train": part, "validation": part})
    train, test = load_glue("mrpc", "glue")
    assert train.texts == test.texts == [("one", "two")]
    assert train.labels.tolist() == [1]

    def fail(*names):
        raise ConnectionError

    monkeypatch.setattr(datasets, "load_dataset", fail)
    with pytest.raises(ValueError, match=r"MRPC was looked for in datasets' cache .* with --data FOLDER"):
        load_glue("mrpc", "glue")


def test_tokens_are_cut_and_padded():
    from transformers import BertTokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "one", "two"]
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(words)})
    texts = Texts([("one one one", "two two two"), ("one", "two")], torch.tensor([1, 0]))
    samples = Tokenised(texts, tokenizer, 7)
    assert samples.sample(0)["input_ids"] == [2, 5, 5, 3, 6, 6, 3]
    batch = samples.collate([samples.sample(1), samples.sample(0)])
    assert batch["input_ids"][0].tolist() == [2, 5, 3, 6, 3, 0, 0]
    assert batch["attention_mask"][0].tolist() == [1, 1, 1, 1, 1, 0, 0]
    assert batch["labels"].tolist() == [0, 1]
    assert batch["token_type_ids"][0].tolist() == [0, 0, 0, 1, 1, 0, 0]
    assert torch.equal(samples.labels, texts.labels)
    scores = Tokenised(Texts(texts.texts, torch.tensor([0.5, 2.0])), tokenizer, 7)
    assert scores.labels is None
    assert scores.collate([scores.sample(1)])["labels"].tolist() == [2.0]
