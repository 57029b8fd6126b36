"""Damaged files: every kind of file that is read is damaged in many ways, and gives a right result or one sentence.

    python -m tests.chimera_lab.data.mutations --cases 2000

damages a file of each kind 2,000 times and prints a table. For files that are made from others (caches, checkpoints), a
result is right if it is that of the file before it was damaged; for others, if another reader finds it in the damaged
file. Files are read in a process of their own, so that a crash is seen.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch

SECONDS, MEMORY = 60, 1 << 34
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "one", "two", "three", "four", "five")
SENTENCE = "one two three four five\n"
MOLECULES = ["CCO", "c1ccccc1", "[Na+].[Cl-]", "CC(=O)O", "N#N", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C"]
TABLE = "smiles,y\n" + "".join(f"{smiles},{n / 4}\n" for n, smiles in enumerate(MOLECULES))
PIXELS = np.random.default_rng(0).integers(0, 256, (9, 11, 3), dtype=np.uint8)
DEEP = np.random.default_rng(1).integers(0, 65536, (9, 11), dtype=np.uint16)


class Kind(NamedTuple):
    """A kind of file.

    Attributes:
        make: writes files into an empty folder; the one to be damaged is what it returns.
        read: reads them with the project's functions.
        truth: what the result should be, by another way; it may raise anything where there is no right result.
    """

    make: Callable[[Path], Path]
    read: Callable[[Path], Any]
    truth: Callable[[Path], Any] | None


KINDS: dict[str, Kind] = {}


def kind(name: str, make: Callable[[Path], Path], truth: Callable[[Path], Any] | None = None) -> Any:
    """Enter a reader under a name; without ``truth`` the result must be that of the file before it was damaged."""

    def enter(read: Callable[[Path], Any]) -> Any:
        KINDS[name] = Kind(make, read, truth)
        return read

    return enter


def file(name: str, content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        return folder / name

    return make


def the(folder: Path, pattern: str) -> Path:
    """The largest file of a pattern."""
    return max(folder.rglob(pattern), key=lambda path: path.stat().st_size)


def unpacked(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


# Graphs


def graphs_of(data: Any) -> list:
    samples = [data.test.sample(n) for n in range(len(data.test))]
    check_wirings([(s["pyg_topology"], s["edge_index"], len(s["x"])) for s in samples])
    return [[s[name].tolist() for name in ("x", "edge_index", "labels")] for s in samples]


def check_wirings(wirings: list) -> None:
    """Solve with elimination, in whatever order is known, and densely."""
    import chimera_ssm as chimera

    for pyg_topology, edge_index, num_nodes in wirings:
        topology = pyg_topology.topology
        assert pyg_topology.fits(edge_index, num_nodes), "the pyg_topology is that of another graph"
        weight = torch.linspace(0.01, 0.2, topology.num_edges)[None]
        rhs = torch.linspace(-1, 1, num_nodes)[None, :, None]
        A = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
        A[topology.edge_index[1], topology.edge_index[0]] = weight[0].double()
        expected = torch.linalg.solve(torch.eye(num_nodes) - A, rhs[0].double())
        found = chimera.solve(topology, weight, rhs, chimera.Elimination())
        torch.testing.assert_close(found[0].double(), expected, rtol=1e-4, atol=1e-4)


def table_truth(folder: Path) -> list:
    from chimera_lab.data.molecules import molecule_graph

    text = unpacked(the(folder, "some.csv*")).decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    graphs = [molecule_graph(row["smiles"]) for row in rows]
    labels = [np.array([[float(row["y"]) if row["y"].strip() else np.nan]], np.float32) for row in rows]
    return [[x.tolist(), edges.tolist(), y.tolist()] for (x, edges, _), y in zip(graphs, labels, strict=True)]


@kind("csv", file("some.csv", TABLE.encode()), table_truth)
@kind("csv.gz", file("some.csv.gz", gzip.compress(TABLE.encode())), table_truth)
def read_table(folder: Path) -> list:
    from chimera_lab.data.graph import load_graphs

    return graphs_of(load_graphs(str(next(folder.glob("some.csv*"))), undivided=True))


def kept_graphs(pattern: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        file("some.csv", TABLE.encode())(folder)
        read_table(folder)
        return the(folder / "chimera" / "graphs", pattern)

    return make


kind("graphs in the cache", kept_graphs("*.npz"))(read_table)
kind("digest in the cache", kept_graphs("*.blake2b"))(read_table)


def split_truth(folder: Path) -> dict[str, list[int]]:
    class Plain(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            raise ValueError(name)

    found = Plain(io.BytesIO((folder / "split.pickle").read_bytes())).load()
    return {part: [int(n) for n in found[part]] for part in ("train", "val", "test")}


def split_invariants(folder: Path) -> dict[str, list[int]]:
    """What is found must be a split; whose numbers it has, only NumPy could tell, which may crash."""
    found = read_split(folder)
    numbers = [n for part in found.values() for n in part]
    assert min(numbers) >= 0
    assert len(numbers) == len(set(numbers))
    assert all(found.values())
    return found


PARTS = {"train": [4, 0, 1], "val": [2, 300], "test": [3]}
ARRAYS = {name: np.array(part) for name, part in PARTS.items()}


@kind("split of lists", file("split.pickle", pickle.dumps(PARTS, protocol=2)), split_truth)
@kind("split of arrays", file("split.pickle", pickle.dumps(ARRAYS, protocol=2)), split_invariants)
@kind("split of arrays, protocol 5", file("split.pickle", pickle.dumps(ARRAYS, protocol=5)), split_invariants)
def read_split(folder: Path) -> dict[str, list[int]]:
    from chimera_lab.data import plain_pickle

    return {name: part.tolist() for name, part in plain_pickle.read_split(folder / "split.pickle").items()}


def rings() -> list:
    edges = [torch.stack([torch.arange(n), (torch.arange(n) + 1) % n]) for n in (17, 30)]
    return [SimpleNamespace(edge_index=torch.cat([e, e.flip(0)], dim=1), num_nodes=e.shape[1]) for e in edges]


def data_set(folder: Path) -> Any:
    """A data set of PyG, in the cache, as `load_graphs` finds it."""
    from torch_geometric import datasets
    from torch_geometric.data import Data, InMemoryDataset

    class Rings(InMemoryDataset):
        processed_file_names = "data.pt"

        def __init__(self, root: str):
            super().__init__(root)
            self.load(self.processed_paths[0])

        def process(self) -> None:
            graphs = [Data(torch.ones(g.num_nodes, 2), g.edge_index, y=torch.tensor([1])) for g in rings()]
            self.save(graphs, self.processed_paths[0])

    datasets.Rings = Rings
    return Rings


def make_data_set(folder: Path) -> Path:
    read_data_set(folder)
    return the(folder, "data.pt")


@kind("PyG's file", make_data_set, lambda folder: read_data_set(folder))
def read_data_set(folder: Path) -> list:
    from chimera_lab.data.graph import load_graphs

    data_set(folder)
    return graphs_of(load_graphs("pyg:Rings", undivided=True))


# Texts


def text_truth(folder: Path) -> list[str | None]:
    lines = unpacked(the(folder, "some.*")).decode("utf-8-sig").split("\n")
    whole = [line + "\n" for line in lines[:-1]] + lines[-1:]
    assert "".join(whole).strip()
    return [line for line in whole if line and not line.isspace()] + [None]


def rows_truth(folder: Path) -> list[str | None]:
    text = unpacked(folder / "some.jsonl").decode("utf-8-sig")
    texts = [json.loads(line)["text"] for line in text.split("\n") if line and not line.isspace()]
    return [piece for text in texts for piece in (text, None) if piece is None or not piece.isspace()]


def parquet_truth(folder: Path) -> list[str | None]:
    from pyarrow import parquet

    texts = parquet.read_table(folder / "some.parquet", columns=["text"], use_threads=False)["text"].to_pylist()
    return [piece for text in texts for piece in (text, None) if piece is None or not piece.isspace()]


def make_parquet(**options: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        import pyarrow
        from pyarrow import parquet

        rows = [f"one two {n} three four" for n in range(40)]
        parquet.write_table(pyarrow.table({"text": rows, "n": list(range(40))}), folder / "some.parquet", **options)
        return folder / "some.parquet"

    return make


ROWS = "".join(json.dumps({"text": f"one two {n}", "n": [n, {"a": None}]}) + "\n" for n in range(5))


@kind("txt", file("some.txt", SENTENCE.encode() * 5), text_truth)
@kind("txt.gz", file("some.txt.gz", gzip.compress(SENTENCE.encode() * 5)), text_truth)
@kind("jsonl", file("some.jsonl", ROWS.encode()), rows_truth)
@kind("parquet", make_parquet(), parquet_truth)
@kind("parquet, uncompressed", make_parquet(compression="none", use_dictionary=False), parquet_truth)
def read_corpus(folder: Path) -> list[str | None]:
    from chimera_lab.data.corpus import load_corpora

    return list(load_corpora(str(next(folder.glob("some.*"))), "text").train.pieces())


def make_tokens(pattern: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        file("some.txt", SENTENCE.encode() * 30)(folder)
        read_tokens(folder)
        return the(folder / "chimera", pattern)

    return make


def make_part(pattern: str) -> Callable[[Path], Path]:
    """What is left of tokenising that was interrupted."""

    def make(folder: Path) -> Path:
        from chimera_lab.data import tokens

        file("some.txt", SENTENCE.encode() * 3000)(folder)
        encode, calls, seconds = tokens._encode, [], tokens.SAVE_SECONDS

        def interrupt(pieces: Any, tokenizer: Any) -> Any:
            calls.append(1)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return encode(pieces, tokenizer)

        tokens._encode, tokens.SAVE_SECONDS = interrupt, 0
        try:
            read_tokens(folder)
        except KeyboardInterrupt:
            return the(folder / "chimera", pattern)
        finally:
            tokens._encode, tokens.SAVE_SECONDS = encode, seconds
        raise AssertionError("it was not interrupted")

    return make


@kind("tokens", make_tokens("tokens-*.bin"))
@kind("vocabulary in the cache", make_tokens("vocab-*.txt"))
@kind("tokens, interrupted", make_part("*.part"))
@kind("progress of tokens", make_part("*.progress"))
def read_tokens(folder: Path) -> list:
    from chimera_lab.data.text import load_text

    blocks = load_text(str(folder / "some.txt"), 7, "auto", 60).unseen
    return [blocks.sample(n).tolist() for n in range(len(blocks))]


def make_saved_tokenizer(folder: Path) -> Path:
    from transformers import BertTokenizer

    BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)}).save_pretrained(folder / "saved")
    return folder / "saved" / "tokenizer.json"


def vocabulary_truth(folder: Path) -> dict[str, int]:
    lines = (folder / "vocab.txt").read_bytes().decode("utf-8-sig").split("\n")
    words = [line.rstrip("\r") for line in (lines if lines[-1] else lines[:-1])]
    return {word: number for number, word in enumerate(words)}


def saved_truth(folder: Path) -> dict[str, int]:
    """All words of the file have their numbers, and there are no others but added ones."""
    saved = json.loads((folder / "saved" / "tokenizer.json").read_text(encoding="utf-8"))
    found, words = read_saved(folder), saved["model"]["vocab"]
    assert {word: found.get(word) for word in words} == words
    settings = (folder / "saved" / "tokenizer_config.json").read_text(encoding="utf-8")
    added = {token.get("content") for token in saved["added_tokens"]}
    assert all(word in words or word in added or word in settings for word in found)
    return found


@kind("vocab.txt", file("vocab.txt", "\n".join(WORDS).encode() + b"\n"), vocabulary_truth)
def read_vocabulary(folder: Path) -> dict[str, int]:
    return read_tokenizer(folder / "vocab.txt")


@kind("tokenizer.json", make_saved_tokenizer, saved_truth)
def read_saved(folder: Path) -> dict[str, int]:
    return read_tokenizer(folder / "saved")


def read_tokenizer(path: Path) -> dict[str, int]:
    from chimera_lab.data.corpus import Corpus
    from chimera_lab.data.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(str(path), Corpus("none", None, lambda: iter(())), 0)
    tokenizer(["one two [MASK] unknown"])
    return tokenizer.get_vocab()


TSV = "index\tsentence1\tsentence2\tscore\n" + "".join(f"{n}\tone {n}\ttwo\t{n / 2}\n" for n in range(9))


def tsv_truth(folder: Path) -> list:
    lines = (folder / "dev.tsv").read_bytes().decode("utf-8-sig").split("\n")
    header, *rows = [line.rstrip("\r\n").split("\t") for line in (lines if lines[-1] else lines[:-1])]
    found = [dict(zip(header, row, strict=False)) for row in rows if len(row) >= len(header)]
    scores = torch.tensor([float(row["score"]) for row in found]).tolist()
    return [[(row["sentence1"], row["sentence2"]) for row in found], scores]


@kind("GLUE's tsv", file("dev.tsv", TSV.encode()), tsv_truth)
def read_tsv(folder: Path) -> list:
    from chimera_lab.data import glue

    found = glue.read_tsv(folder / "dev.tsv", glue.TASKS["stsb"])
    return [found.texts, found.labels.tolist()]


EDGES = "0 1\n1 -> 2  # one way\n2 -- 3\n3, 0\n"


def edges_truth(folder: Path) -> set:
    text = (folder / "edges.txt").read_bytes().decode("utf-8-sig")
    found = set()
    for line in text.split("\n"):
        ends = line.partition("#")[0].replace("->", " -> ").replace("--", " ").replace(",", " ").split()
        numbers = [int(end) for end in ends if end != "->"]
        if numbers:
            a, b = numbers
            found |= {(a, b)} if "->" in ends else {(a, b), (b, a)}
    return found


@kind("edges", file("edges.txt", EDGES.encode()), edges_truth)
def read_edges(folder: Path) -> set:
    from chimera_lab.show.spec import parse_topology

    return {(a, b) for a, b in parse_topology(str(folder / "edges.txt")).edge_index.T.tolist()}


# Images


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return head + array.tobytes()


def idx_truth(folder: Path) -> list:
    content = unpacked(the(folder, "images*"))
    shape = np.frombuffer(content[4:16], ">u4").astype(int)
    assert content[:4] == bytes([0, 0, 8, 3])
    return np.frombuffer(content[16:], np.uint8).reshape(shape).tolist()


@kind("idx", file("images", idx(PIXELS)), idx_truth)
@kind("idx.gz", file("images.gz", gzip.compress(idx(PIXELS))), idx_truth)
def read_idx(folder: Path) -> list:
    from chimera_lab.data import image_files

    return image_files.read_idx(the(folder, "images*"), 3).tolist()


def picture(name: str, pixels: np.ndarray, **options: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        from PIL import Image

        Image.fromarray(pixels).save(folder / name, **options)
        return folder / name

    return make


def picture_truth(folder: Path) -> tuple:
    from PIL import Image

    with Image.open(the(folder, "picture.*")) as image:
        if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
            return known(np.stack([(np.asarray(image) / np.float32(65535)).astype(np.float32)] * 3))
        if image.mode == "F":
            return known(np.stack([np.asarray(image)] * 3))
        return known(np.moveaxis(np.asarray(image.convert("RGB")), -1, 0))


def known(array: np.ndarray) -> tuple:
    """What tells an array from others, also one of many million pixels."""
    return array.shape, str(array.dtype), blake2b(np.ascontiguousarray(array)).hexdigest()


for name, pixels, options in (
    ("png", PIXELS, {}),
    ("jpg", PIXELS, {}),
    ("gif", PIXELS[..., 0], {}),
    ("bmp", PIXELS, {}),
    ("webp", PIXELS, {}),
    ("ppm", PIXELS, {}),
    ("pgm", DEEP, {}),
    ("tiff", PIXELS, {"compression": "tiff_lzw"}),
    ("png, 16 bits", DEEP, {}),
    ("tiff, 16 bits", DEEP, {}),
    ("tiff, real numbers", (DEEP / 65535).astype(np.float32), {}),
):

    @kind(name, picture(f"picture.{name.partition(',')[0]}", pixels, **options), picture_truth)
    def read_picture(folder: Path) -> tuple:
        from chimera_lab.data.image_files import read_image

        return known(read_image(the(folder, "picture.*"), 3).numpy())


def mask_truth(folder: Path) -> list:
    from PIL import Image

    with Image.open(folder / "mask.png") as image:
        return np.asarray(image).tolist()


@kind("mask of superpixels", picture("mask.png", PIXELS[..., 0] % 4), mask_truth)
def read_mask(folder: Path) -> list:
    from chimera_lab.data import superpixels

    return superpixels._read_mask(folder / "mask.png", (9, 11)).tolist()


# Models


def make_model(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        import chimera_ssm as chimera

        torch.manual_seed(0)
        model = chimera.create_model("chimera_image_test", num_hidden_layers=1)
        model.save_pretrained(folder / "model")
        chimera.ChimeraImageProcessor.for_model(model.config).save_pretrained(folder / "model")
        return folder / "model" / name

    return make


def weights_truth(folder: Path) -> dict[str, list]:
    from safetensors.torch import load_file

    weights = load_file(folder / "model" / "model.safetensors")
    return {name: weights[name].float().tolist() for name in sorted(weights)}


def config_truth(folder: Path) -> dict[str, Any]:
    config = json.loads((folder / "model" / "config.json").read_text(encoding="utf-8"))
    return config | {"id2label": {str(int(number)): name for number, name in config.get("id2label", {}).items()}}


@kind("safetensors", make_model("model.safetensors"), weights_truth)
def read_weights(folder: Path) -> dict[str, list]:
    from chimera_lab.show.loading import load

    weights = load(folder / "model").model.state_dict()
    return {name: weights[name].float().tolist() for name in sorted(weights)}


@kind("config.json", make_model("config.json"), config_truth)
def read_config(folder: Path) -> dict[str, Any]:
    """The settings that the file has, as the model has them."""
    from chimera_lab.show.loading import load

    model, wanted = load(folder / "model").model, config_truth(folder)
    found = json.loads(model.config.to_json_string(use_diff=False))
    different = {"dtype", "transformers_version", "architectures", "model_type"}
    return {key: wanted[key] if key in different else found.get(key) for key in wanted}


@kind("preprocessor_config.json", make_model("preprocessor_config.json"), lambda folder: read_processor(folder))
def read_processor(folder: Path) -> list:
    from chimera_lab.show.images import read_pixels
    from chimera_lab.show.loading import Trained

    picture("one.png", PIXELS)(folder)
    return read_pixels(Trained(None, folder / "model", None), str(folder / "one.png")).tolist()


def make_checkpoint(folder: Path) -> Path:
    from chimera_lab.recipes import find_recipe
    from chimera_lab.training.settings import as_dict

    state = {"step": 3, "recipe": as_dict(find_recipe("image/digits", "laptop")), "sums": {}, "results": {}}
    weights = {"a": torch.arange(30.0), "b": torch.ones(3, 4, dtype=torch.bfloat16)}
    lightning = {"state_dict": weights, "optimizer_states": [], "callbacks": {}}
    torch.save({"chimera": state, **lightning}, folder / "step-3.ckpt")
    return folder / "step-3.ckpt"


@kind("checkpoint", make_checkpoint)
def read_checkpoint(folder: Path) -> list:
    from chimera_lab.recipes import find_recipe
    from chimera_lab.training import checkpoints

    found = checkpoints.load(folder / "step-3.ckpt", find_recipe("image/digits", "laptop"))
    return [weight.tolist() for weight in found["state_dict"].values()]


# Damage


def damage(content: bytes, chance: random.Random) -> bytes:
    """The same with some bits or bytes changed, cut off, left out, repeated, put in or exchanged."""
    data, size = bytearray(content), len(content)
    first, last = sorted(chance.randrange(size + 1) for _ in range(2))
    last = min(last, first + chance.choice((1, 2, 4, 16, size)))
    how = chance.randrange(9)
    if how == 0:
        data[chance.randrange(size)] ^= 1 << chance.randrange(8)
    elif how == 1:
        for _ in range(chance.randint(2, 9)):
            data[chance.randrange(size)] ^= 1 << chance.randrange(8)
    elif how == 2:
        data[chance.randrange(size)] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
    elif how == 3:
        del data[first:]
    elif how == 4:
        del data[first:last]
    elif how == 5:
        data[first:first] = data[first:last]
    elif how == 6:
        data[first:first] = chance.randbytes(chance.randint(1, 20))
    elif how == 7:
        data[first:last] = bytes(last - first)
    else:
        exchange(data, chance)
    return bytes(data)


def exchange(data: bytearray, chance: random.Random) -> None:
    """Exchange two fields, of lines or of what stands between other signs, or else two stretches."""
    sign = chance.choice([sign for sign in (b"\n", b",", b"\t", b" ", b'"', b"\0") if sign in data] or [b""])
    fields = data.split(sign) if sign else [data[n : n + 4] for n in range(0, len(data), 4)]
    a, b = chance.randrange(len(fields)), chance.randrange(len(fields))
    fields[a], fields[b] = fields[b], fields[a]
    data[:] = sign.join(fields)


def damage_file(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    if path.suffix == ".gz" and chance.random() < 0.5:  # what is packed in it
        changed = gzip.compress(damage(gzip.decompress(content), chance))
    else:
        changed = damage(content, chance)
    path.write_bytes(changed)


# Cases


def work(names: list[str], cases: int, done: int) -> None:
    """Read ``cases`` damaged files of each kind and print the outcomes; a crash or a timeout ends the process."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print
    for place, name in enumerate(names):
        numbers = range(max(0, done - place * cases), cases)
        if numbers:
            with tempfile.TemporaryDirectory() as home, redirect_stderr(io.StringIO()):
                for number, what in read_cases(name, numbers, Path(home)):
                    print(json.dumps([name, number, what]), file=answers, flush=True)


def read_cases(name: str, numbers: range, home: Path) -> Iterator[tuple[int, str]]:
    make, read, truth = KINDS[name]
    intact = home / "intact"
    intact.mkdir()
    use_cache(intact)
    target = make(intact).relative_to(intact)
    whole = copied(intact, home / "whole")
    expected = read(whole)
    assert truth is None or same(expected, truth(whole)), f"{name}: the file that is not damaged is read wrongly"
    for number in numbers:
        signal.alarm(SECONDS)
        folder = copied(intact, home / "damaged")
        damage_file(folder / target, random.Random(f"{name} {number}"))
        yield number, read_case(KINDS[name], folder, expected)
        shutil.rmtree(folder)
        signal.alarm(0)


def copied(intact: Path, folder: Path) -> Path:
    shutil.copytree(intact, folder)
    use_cache(folder)
    return folder


def read_case(kind: Kind, folder: Path, expected: Any) -> str:
    """What becomes of a damaged file: it is ``refused``, read ``right``, or something is wrong."""
    try:
        found = kind.read(folder)
    except Exception as error:
        return judge(error, folder)
    if kind.truth is not None:
        try:
            expected = kind.truth(folder)
        except Exception as error:
            return f"WRONG: read without an error, where another reader finds {type(error).__name__}: {error}"
    return "right" if same(found, expected) else f"WRONG: found {str(found)[:200]}, expected {str(expected)[:200]}"


def same(found: Any, expected: Any) -> bool:
    return repr(found) == repr(expected) or found == expected  # NaN is not itself


def judge(error: Exception, folder: Path) -> str:
    """Errors are our own sentences: they name a file and are on one line."""
    from chimera_ssm.errors import TopologyError

    words = str(error)
    ours = type(error) in (ValueError, TopologyError, OSError)
    named = isinstance(error, TopologyError) or any(path.name in words for path in [folder, *folder.rglob("*")])
    return "refused" if ours and named and "\n" not in words else f"UNCLEAR: {type(error).__name__}: {words[:300]}"


def use_cache(folder: Path) -> None:
    """Let the cache be in the folder, and no graph be known."""
    from chimera_ssm.topology import cache

    os.environ["XDG_CACHE_HOME"] = str(folder)
    cache.clear()


def run(names: list[str], cases: int, tell: Callable[[str], None] = lambda line: None) -> dict[str, Counter]:
    """Count the outcomes of ``cases`` damaged files of each kind; a process that crashes is replaced by a new one."""
    found = {name: Counter() for name in names}
    done, total = 0, cases * len(names)
    while done < total:
        command = [sys.executable, "-X", "faulthandler", "-m", __spec__.name, "--cases", str(cases), "--kinds", *names]
        with tempfile.TemporaryFile("w+") as said:
            worker = subprocess.Popen([*command, "--done", str(done)], stdout=subprocess.PIPE, stderr=said, text=True)
            for line in worker.stdout:
                name, number, what = json.loads(line)
                enter(found[name], number, what, tell)
                done += 1
                if number == cases - 1:
                    tell(summary(name, found[name]))
            if worker.wait() or done < total:
                said.seek(0)
                place, number = divmod(done, cases)
                enter(found[names[place]], number, f"CRASH with code {worker.returncode}: {said.read()[-900:]}", tell)
                done += 1
    return found


def enter(counter: Counter, number: int, what: str, tell: Callable[[str], None]) -> None:
    good = what in ("right", "refused")
    counter[what if good else f"case {number}: {what}"] += 1
    if not good and len(counter) < 8:
        tell(f"    case {number}: {what}")


def summary(name: str, counter: Counter) -> str:
    bad = counter.total() - counter["right"] - counter["refused"]
    return f"{name:34} {counter['right']:6,} right {counter['refused']:6,} refused {bad:4} bad"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000, help="of each kind")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), help="all if omitted")
    parser.add_argument("--done", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.done is not None:
        work(args.kinds, args.cases, args.done)
        return 0
    found = run(args.kinds, args.cases, lambda line: print(line, flush=True))
    total = sum(found.values(), Counter())
    print(summary(f"{total.total():,} cases of {len(found)} kinds", total))
    return int(total.total() > total["right"] + total["refused"])


if __name__ == "__main__":
    sys.exit(main())
