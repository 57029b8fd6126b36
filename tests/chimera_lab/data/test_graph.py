"""Graphs from files: molecules, splits, stores, and what is refused."""

import gzip
import pickle

import numpy as np
import pytest
import torch

import chimera_ssm as chimera
from chimera_lab.data import molecules, peptides, plain_pickle, pyg
from chimera_lab.data.graph import load_graphs
from chimera_lab.data.graph_store import GraphStore
from chimera_lab.data.pyg import LRGB
from chimera_lab.recipes import find_recipe
from chimera_ssm.topology import cache

pytest.importorskip("rdkit")
pytest.importorskip("ogb")

CSV = "smiles,y,z\nCCO,1.5,0\nc1ccccc1,2,1\n[Na+].[Cl-],3,1\nC,,0\nCC(=O)O,4.5,0\nN#N,0,1\n"


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write(tmp_path, text=CSV, name="some.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_molecule_is_as_ogb_has_it():
    from ogb.utils.mol import smiles2graph

    for smiles in ("C", "C[C@H](N)C(=O)O", "c1ccc2ccccc2c1", "[Na+].[Cl-]", "F/C=C/F"):
        x, edge_index, edge_attr = molecules.molecule_graph(smiles)
        expected = smiles2graph(smiles)
        assert np.array_equal(x, expected["node_feat"])
        assert np.array_equal(edge_index, expected["edge_index"])
        assert np.array_equal(edge_attr, expected["edge_feat"])


def test_csv(tmp_path):
    path = write(tmp_path)
    data = load_graphs(str(path), targets=("y",))
    assert (len(data.train), len(data.test)) == (5, 1)
    assert (data.level, data.problem_type, data.num_labels, data.edge_features) == ("graph", "regression", 1, [5, 6, 2])
    known = torch.cat([data.train.sample(i)["labels"] for i in range(5)]).flatten()
    known = known[~known.isnan()].double()
    assert data.label_mean == pytest.approx([float(known.mean())])
    assert data.label_std == pytest.approx([float(known.std(correction=0))])
    many = load_graphs(str(path), targets=("z", "z"), problem="multi_label_classification")
    assert many.num_labels == 2
    classes = load_graphs(str(path), targets=("z",), problem="single_label_classification")
    assert classes.num_labels == 2
    assert sorted(classes.train.labels.tolist() + classes.test.labels.tolist()) == [0, 0, 0, 1, 1, 1]


def test_csv_in_parts(tmp_path):
    for name, text in {"train": CSV, "val": "smiles,y\nC,1\n", "test": "smiles,y\nCC,1\nCCC,2\n"}.items():
        write(tmp_path, text, f"{name}.csv")
    data = load_graphs(str(tmp_path))
    assert [len(part) for part in (data.train, data.validation, data.test)] == [6, 1, 2]


def test_batches_are_graphs_side_by_side(tmp_path):
    store = molecules.csv_store(write(tmp_path), "smiles", ["y"], problem="regression", refuse=True)
    samples = [store.sample(i) for i in (0, 1, 2)]
    batch = store.collate(samples)
    assert batch["x"].shape == (11, 9)
    assert batch["batch"].tolist() == [0] * 3 + [1] * 6 + [2] * 2
    assert batch["labels"].flatten().tolist() == [1.5, 2, 3]
    assert torch.equal(batch["edge_index"], batch["pyg_topology"].topology.edge_index)
    assert torch.equal(batch["edge_index"][:, 4:], samples[1]["edge_index"] + 3)
    torch.manual_seed(0)
    model = chimera.create_model("chimera_graph_test", num_labels=1).eval()
    alone = [model(s["x"], s["edge_index"], s["edge_attr"]).logits for s in samples]
    batch.pop("labels")
    torch.testing.assert_close(model(**batch).logits, torch.cat(alone))


def kept_file(tmp_path):
    (file,) = (tmp_path / "cache" / "chimera" / "graphs").glob("*.npz")
    return file


def test_graphs_are_read_once_and_kept_in_the_cache(tmp_path, monkeypatch):
    path = write(tmp_path)
    store = molecules.csv_store(path, "smiles", ["y"], problem="regression", refuse=True)
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["some.csv"]
    monkeypatch.setattr(molecules, "molecule_graph", None)  # no molecule is read again
    again = molecules.csv_store(path, "smiles", ["y"], problem="regression", refuse=True)
    batch, expected = (s.collate([s.sample(i) for i in range(6)]) for s in (again, store))
    for name in ("x", "edge_index", "edge_attr", "labels"):
        assert torch.equal(batch[name].nan_to_num(), expected[name].nan_to_num())


def edited(file, name, change):
    """Change an array of a file as someone would who knows how it was written."""
    with np.load(file) as content:
        arrays = dict(content)
    change(arrays[name])
    np.savez_compressed(file, **arrays)


def roll(array):
    array[:] = np.roll(array, 1, axis=-1)


@pytest.mark.parametrize("name", ["y", "x", "edge_index", "edge_attr", "nodes", "edges", "targets"])
def test_a_kept_file_that_was_edited_is_made_anew(name, tmp_path, monkeypatch):
    """Labels and all else are those of the csv file."""
    path = write(tmp_path)
    store = molecules.csv_store(path, "smiles", ["y"], problem="regression", refuse=True)
    edited(kept_file(tmp_path), name, roll)
    cache.clear()  # as in another process: no graph is known
    again = molecules.csv_store(path, "smiles", ["y"], problem="regression", refuse=True)
    for array, expected in store.arrays.items():
        np.testing.assert_array_equal(again.arrays[array], expected)


def test_other_data_or_damage_are_noticed(tmp_path):
    path = write(tmp_path)
    molecules.csv_store(path, "smiles", ["y"], problem="regression", refuse=True)
    file = kept_file(tmp_path)
    file.write_bytes(file.read_bytes()[:100])
    assert len(molecules.csv_store(path, "smiles", ["y"], problem="regression", refuse=True)) == 6
    write(tmp_path, CSV + "CCC,1,1\n")
    assert len(molecules.csv_store(path, "smiles", ["y"], problem="regression", refuse=True)) == 7


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert len(molecules.csv_store(write(tmp_path), "smiles", ["y"], problem="regression", refuse=True)) == 6


# Bad input


def test_unreadable_molecules_are_told_of_and_skipped_or_refused(tmp_path, capsys):
    path = write(tmp_path, "smiles,y\nCCO,1\nnonsense,2\nCC,3\n,4\nC(,5\n")
    with pytest.raises(ValueError, match=r"some.csv, line 3: 'nonsense' is not a molecule .* --bad-smiles skip"):
        load_graphs(str(path))
    for _ in range(2):  # also when read from the file of graphs
        data = load_graphs(str(path), refuse=False)
        assert len(data.train) + len(data.test) == 2
        told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("skipped")]
        assert [line.partition(":")[0] for line in told] == [f"skipped some.csv, line {n}" for n in (3, 5, 6)]
        assert "the molecule is empty" in told[1]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "has no header: its first line should name the columns smiles, y"),
        ("smiles,y\n", {}, "has a header and no molecules"),
        ("smiles,y\nC,1\nCC\n", {}, "line 3: found 1 fields, expected 2 as in the header"),
        ("smiles,y\nC,1,2\n", {}, "line 2: found 3 fields, expected 2 as in the header"),
        (f"smiles,y\n{'C' * 140_000},1\n", {}, "line 2: field larger than field limit"),
        ("mol,y\nC,1\n", {}, "has no column 'smiles'; it has: mol, y"),
        ("smiles,y\nC,1\n", {"targets": ("y", "w")}, "has no column 'w'"),
        ("smiles,y,y\nC,1,2\n", {}, "some.csv should have one column 'y', found 2; rename or remove the others"),
        ("smiles,y\nC,high\nCC,1\n", {}, "line 2: labels must be finite numbers, .*, found 'high'"),
        ("smiles,y\nCC,1\nC,inf\n", {}, "line 3: labels must be finite numbers, .*, found 'inf'"),
        ("smiles,y\nCC,1\nC,1e39\n", {}, "line 3: labels must be finite numbers, .*, found '1e39'"),
        ("smiles,y\nC,0.5\n", {"problem": "multi_label_classification"}, "line 2: labels must be 0 or 1 .*'0.5'"),
        ("smiles,y\nC,\nCC,\nCCC,\n", {}, "a target has no label in the training part"),
        (
            "smiles,y\nC,\nCC,1\n",
            {"problem": "single_label_classification"},
            "line 2: a class must be one whole number",
        ),
        ("smiles,y\nC,1\n", {}, "a single graph: too few"),
        ("smiles,y\nX,1\nY!,2\n", {"refuse": False}, "none of the 2 molecules .* can be read"),
    ],
)
def test_bad_csv(tmp_path, text, options, message):
    with pytest.raises(ValueError, match=message):
        load_graphs(str(write(tmp_path, text)), **options)


def test_csv_files_that_are_damaged_or_no_text(tmp_path):
    path = tmp_path / "some.csv.gz"
    whole = gzip.compress(CSV.encode() * 9)
    for content in (b"", b"smiles,y", whole[:-9], whole[:20] + bytes(40) + whole[60:], whole[:20] + b"\xff" * 40):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"some\.csv\.gz (is damaged: .*; copy it again|has no header)"):
            load_graphs(str(path))
    (tmp_path / "some.csv").write_bytes(CSV.encode() + b"C\xe9,1,1\n")
    with pytest.raises(ValueError, match=r"some.csv is not UTF-8 text: line 8 has the byte 0xe9"):
        load_graphs(str(tmp_path / "some.csv"))


def test_csv_files_of_any_line_ending(tmp_path):
    for ending in ("\n", "\r\n", "\r"):
        (tmp_path / "some.csv").write_bytes(b"\xef\xbb\xbf" + CSV.replace("\n", ending).encode())
        assert len(load_graphs(str(tmp_path / "some.csv"), undivided=True).test) == 6


@pytest.mark.parametrize(
    "name", ["../../x", "..", ".", "/tmp/x", "a/b", "a\\b", "", " ", "~", "a\0b", "\udce9", "-x", ".hidden"]
)
def test_names_do_not_lead_out_of_the_cache(name, tmp_path):
    pytest.importorskip("torch_geometric")
    with pytest.raises(ValueError, match="the name of a data set of PyG may have letters, digits and"):
        load_graphs(f"pyg:Planetoid/{name}")
    assert not list(tmp_path.rglob("*"))


def test_data_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="no data set, file or folder 'ncj'; data is nci, rings:1-16, peptides-func"):
        load_graphs("ncj")
    with pytest.raises(ValueError, match=r"looked at for train.csv and test.csv"):
        load_graphs(str(tmp_path))
    with pytest.raises(ValueError, match=r"PyG has no data set of the name 'Nothing'"):
        load_graphs("pyg:Nothing")


# The peptides' files


def peptide_folder(tmp_path, split, old="", new=""):
    rows = [f'{n},{s},X,"[{n % 2}, {int(n > 2)}]",{n}' for n, s in enumerate(["CCO", "CC", "C", "NCC(=O)O", "CCC"])]
    text = "\n".join([",smiles,peptide_seq,labels,identifier", *rows]).replace(old, new, 1) + "\n"
    (tmp_path / peptides.FUNCTION_FILES[0]).write_bytes(gzip.compress(text.encode()))
    (tmp_path / peptides.FUNCTION_FILES[1]).write_bytes(pickle.dumps(split, protocol=2))
    return str(tmp_path)


def test_peptides(tmp_path):
    split = {"train": np.array([4, 0, 1]), "val": [2], "test": [3]}
    data = load_graphs(peptide_folder(tmp_path, split))
    assert (data.problem_type, data.num_labels, data.level) == ("multi_label_classification", 2, "graph")
    assert [len(part) for part in (data.train, data.validation, data.test)] == [3, 1, 1]
    assert data.train.sample(0)["labels"].tolist() == [[0, 1]]
    assert len(data.test.sample(0)["x"]) == 5


def structure_folder(tmp_path):
    values = np.random.default_rng(0).normal(3, 2, (4, 11))
    rows = [",".join(["CC" + "C" * n, *map(str, v)]) for n, v in enumerate(values)]
    text = "\n".join([",".join(["smiles", *peptides.STRUCTURE]), *rows]) + "\n"
    (tmp_path / peptides.STRUCTURE_FILES[0]).write_bytes(gzip.compress(text.encode()))
    split = {"train": [0, 1], "val": [2], "test": [3]}
    (tmp_path / peptides.STRUCTURE_FILES[1]).write_bytes(pickle.dumps(split))
    return values


def test_structure_of_peptides_is_standardised(tmp_path):
    values = structure_folder(tmp_path)
    data = load_graphs(str(tmp_path))
    assert (data.problem_type, data.num_labels, data.label_std) == ("regression", 11, None)
    expected = (values - values.mean(0)) / values.std(0, ddof=1)
    np.testing.assert_allclose(data.test.sample(0)["labels"].numpy(), expected[3:], rtol=1e-5)


def test_the_problem_says_which_peptides(tmp_path):
    structure_folder(tmp_path)
    with pytest.raises(ValueError, match=r"for regression, and the recipe is for multi_label.*--problem regression"):
        load_graphs(str(tmp_path), problem="multi_label_classification")
    folder = peptide_folder(tmp_path, {"train": [0], "val": [1], "test": [2]})
    for problem, labels in (("multi_label_classification", 2), ("regression", 11)):
        data = load_graphs(folder, problem=problem)
        assert (data.problem_type, data.num_labels) == (problem, labels)
    for problem in (None, "single_label_classification"):
        with pytest.raises(ValueError, match="files of both Peptides-func and Peptides-struct; say which with --prob"):
            load_graphs(folder, problem=problem)


@pytest.mark.parametrize(("name", "problem"), [("peptides-func", "regression"), ("rings:1", "regression")])
def test_labels_of_another_problem_are_refused(name, problem):
    pytest.importorskip("torch_geometric")
    with pytest.raises(ValueError, match=f"the labels of {name} are for .*_classification, and the recipe is for"):
        load_graphs(name, problem=problem)


def test_recipes_of_the_benchmark_say_their_problem():
    recipes = {name: find_recipe(f"graph/{name}", "paper") for name in LRGB}
    assert {name: recipe.problem for name, recipe in recipes.items()} == LRGB


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("smiles", "molecule", "has no column 'smiles'; it has: , molecule"),
        ("labels", "classes", "has no column 'labels'"),
        (",CC,", ",C1CC,", r"line 3: 'C1CC' is not a molecule that rdkit can read; correct it; it cannot be left out"),
        ("[1, 0]", "[1, 2]", "line 3: labels must be 0 or 1 .* found '1', ' 2'"),
        ("[1, 0]", "[1, {}]", "line 3: labels must be 0 or 1"),
        ("[1, 0]", "[1]", "line 3: found 1 labels, expected 2"),
    ],
)
def test_bad_files_of_peptides(tmp_path, old, new, message):
    folder = peptide_folder(tmp_path, {"train": [0], "val": [1], "test": [2]}, old, new)
    with pytest.raises(ValueError, match=message):
        load_graphs(folder, refuse=False)


class Harmful:
    def __reduce__(self):
        return (exec, ("raise SystemExit('executed')",))


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (Harmful(), "is not a split of plain lists or arrays: it holds .*exec"),
        ({"train": Harmful(), "val": [1], "test": [2]}, "it holds .*exec"),
        (torch.nn.Linear, "it holds torch.nn.modules.linear.Linear"),
        ([1, 2], "should hold a dictionary with train, val and test, found list"),
        ({"train": [0], "test": [1]}, "a dictionary with train, val and test, found dict"),
        ({"train": ["a"], "val": [1], "test": [2]}, "should hold indices in train, found list"),
        ({"train": [0, 1], "val": [1], "test": [2]}, "indices that are in more than one part"),
        ({"train": [0, 1], "val": [2], "test": [5]}, "names peptides that .* does not have"),
        ({"train": [0, 1], "val": [2], "test": [2**63]}, "should hold indices in test, found list"),
        ({"train": [0, 1], "val": [2], "test": [2**70]}, "should hold indices in test, found list"),
        ({"train": [[0], [1, 2]], "val": [3], "test": [4]}, "should hold indices in train, found list"),
        ({"train": np.zeros(3), "val": [1], "test": [2]}, "it holds numbers of the type f8, expected integers"),
        ({"train": np.array([[0], [1]]), "val": [2], "test": [3]}, r"2 numbers as an array of the shape \(2, 1\)"),
        ({"train": np.array([None]), "val": [2], "test": [3]}, "it holds numbers of the type O8"),
    ],
)
def test_bad_splits(tmp_path, split, message):
    with pytest.raises(ValueError, match=message):
        load_graphs(peptide_folder(tmp_path, split))


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["<i8", ">i4", "u1", "<u8"])
def test_splits_of_any_protocol(protocol, dtype, tmp_path):
    split = {"train": np.array([4, 0, 1], dtype), "val": [np.int64(2)], "test": [3]}
    (tmp_path / "split").write_bytes(pickle.dumps(split, protocol=protocol))
    found = plain_pickle.read_split(tmp_path / "split")
    assert {name: part.tolist() for name, part in found.items()} == {"train": [4, 0, 1], "val": [2], "test": [3]}


def test_a_damaged_type_of_numbers_does_not_crash(tmp_path):
    """NumPy's own type would take the flag that says that integers are objects."""
    content = pickle.dumps({"train": np.array([0, 1]), "val": [2], "test": [3]}, protocol=2)
    assert content.count(b"K\x00t") == 1
    (tmp_path / "split").write_bytes(content.replace(b"K\x00t", b"K\x3ft"))
    assert plain_pickle.read_split(tmp_path / "split")["train"].tolist() == [0, 1]


def test_a_damaged_split_and_missing_files(tmp_path):
    folder = peptide_folder(tmp_path, {"train": [0], "val": [1], "test": [2]})
    path = tmp_path / peptides.FUNCTION_FILES[1]
    large = (1 << 62).to_bytes(8, "little")
    for content in (b"not a pickle", b"\x80\x04\x8e" + b"\xff" * 8, b"\x80\x05\x96" + large):  # too many bytes
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a split"):
            load_graphs(folder)
    path.unlink()
    with pytest.raises(ValueError, match=r"splits_random_stratified_peptide.pickle is not there"):
        load_graphs(folder)


# PyG


def test_data_sets_of_pyg(monkeypatch):
    pytest.importorskip("torch_geometric")
    from torch_geometric import datasets, seed_everything

    def few(num_graphs=10):
        seed_everything(1)  # Python's chance, too, from which labels are drawn
        return datasets.FakeDataset(num_graphs, avg_num_nodes=12, edge_dim=2, task="graph", num_classes=4)

    monkeypatch.setattr(datasets, "Few", few, raising=False)
    data = load_graphs("pyg:Few")
    assert (data.level, data.problem_type, data.num_labels) == ("graph", "single_label_classification", 4)
    assert (len(data.train), len(data.test), data.node_features, data.edge_features) == (8, 2, 64, 2)
    batch = data.train.collate([data.train.sample(i) for i in range(3)])
    sizes = {"node_features": 64, "edge_features": 2, "num_labels": 4, "problem_type": data.problem_type}
    model = chimera.create_model("chimera_graph_test", **sizes)
    assert model(**batch).logits.shape == (3, 4)
    monkeypatch.setattr(datasets, "Few", lambda: few(1), raising=False)
    with pytest.raises(ValueError, match="a single graph: too few"):
        load_graphs("pyg:Few")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("FakeDataset", "a single graph: too few"),
        ("FakeHeteroDataset", "found HeteroData with no x; choose another data set"),
        ("ExplainerDataset", "needs graph_generator, motif_generator, num_motifs, for which there is no setting"),
        ("Planetoid", "has several data sets; name one as pyg:Planetoid/name"),
        ("FakeDataset/x", "has no data sets by name; write pyg:FakeDataset"),
        ("utils", "PyG has no data set of the name 'utils'"),
    ],
)
def test_data_sets_of_pyg_that_are_refused(name, message):
    pytest.importorskip("torch_geometric")
    with pytest.raises(ValueError, match=message):
        load_graphs(f"pyg:{name}")


@pytest.fixture
def few(monkeypatch):
    """A function that makes ``pyg:Few`` of labels, one graph of four nodes for each."""
    pytest.importorskip("torch_geometric")
    from torch_geometric import datasets
    from torch_geometric.data import Data

    edges = torch.tensor([[0, 1], [1, 2]])
    monkeypatch.setattr(
        pyg, "_cached_dataset", lambda sets, _: GraphStore.of(pyg._of_data(data, "a graph") for data in sets)
    )

    def make(labels, **fields):
        made = [Data(torch.randn(4, 3), edges, y=y, **fields) for y in labels]
        monkeypatch.setattr(datasets, "Few", lambda: made, raising=False)
        return load_graphs("pyg:Few")

    return make


@pytest.mark.parametrize(
    ("label", "problem", "count"),
    [
        (lambda: torch.rand(4), "regression", 1),
        (lambda: torch.rand(4, 3), "regression", 3),
        (lambda: (torch.rand(4, 3) < 0.5).float(), "multi_label_classification", 3),
        (lambda: torch.tensor([0, 1, 2, 0]), "single_label_classification", 3),
        (lambda: torch.tensor([[0], [1], [2], [0]]), "single_label_classification", 3),
        (lambda: torch.randint(2, (4, 3)), "multi_label_classification", 3),
    ],
)
def test_any_labels_of_nodes(few, label, problem, count):
    labels = [label() for _ in range(5)]
    data = few(labels)
    assert (data.level, data.problem_type, data.num_labels) == ("node", problem, count)
    sizes = {"node_features": 3, "edge_features": None, "num_labels": count, "problem_type": problem, "level": "node"}
    sizes |= {"label_mean": data.label_mean, "label_std": data.label_std}
    batch = data.train.collate([data.train.sample(n) for n in range(4)])
    found = chimera.create_model("chimera_graph_test", **sizes)(**batch)
    assert found.logits.shape == (16, count)
    assert torch.isfinite(found.loss)
    if problem == "regression":
        known = torch.cat([data.train.sample(n)["labels"] for n in range(4)])
        torch.testing.assert_close(torch.tensor(data.label_mean), known.mean(0))


def test_numbers_of_nodes_divided_by_masks(few):
    masks = {
        f"{name}_mask": torch.tensor(mask).bool() for name, mask in (("train", [1, 1, 0, 0]), ("test", [0, 0, 0, 1]))
    }
    data = few([torch.tensor([1.0, 3.0, 5.0, 7.0])], **masks)
    assert (data.level, data.problem_type, data.label_mean) == ("node", "regression", [2.0])
    assert data.test.sample(0)["labels"].isnan().flatten().tolist() == [True, True, True, False]
    several = few([torch.tensor([[0, 1], [1, 0], [0, 0], [1, 1]])], **masks)
    assert several.train.sample(0)["labels"][:2].tolist() == [[0, 1], [1, 0]]
    assert several.problem_type == "multi_label_classification"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([torch.zeros(2, 2)] * 3, "one row for each graph, or one for each node"),
        ([torch.rand(4), torch.rand(1, 3)], "the same labels, found rows of the shapes"),
    ],
)
def test_labels_that_no_model_has_are_refused(few, labels, message):
    with pytest.raises(ValueError, match=message):
        few(labels)


def test_files_of_the_benchmark_are_read_from_a_folder_of_its_name(tmp_path, monkeypatch):
    pytest.importorskip("torch_geometric")
    from torch_geometric import datasets
    from torch_geometric.data import Data, InMemoryDataset

    class Benchmark(InMemoryDataset):
        def __init__(self, root, name, split):
            super().__init__()
            assert (root, name) == (str(tmp_path), "coco-sp")
            edges = torch.tensor([[0, 1], [1, 0]])
            y = torch.tensor([0, 1] if split == "train" else [1, 0])
            self.data, self.slices = self.collate([Data(torch.rand(2, 14), edges, torch.rand(2, 2), y)] * 2)

    monkeypatch.setattr(datasets, "LRGBDataset", Benchmark)
    (tmp_path / "coco-sp" / "raw").mkdir(parents=True)
    data = load_graphs(str(tmp_path / "coco-sp"))
    assert data.train.sample(0)["labels"].tolist() == [0, 1]
    assert data.test.sample(1)["labels"].tolist() == [1, 0]


def test_graphs_of_a_data_set_of_pyg_are_kept_in_the_cache(tmp_path, monkeypatch):
    pytest.importorskip("torch_geometric")
    from torch_geometric import datasets
    from torch_geometric.data import Data, InMemoryDataset

    class Rings(InMemoryDataset):
        def __init__(self, root):
            super().__init__(root)
            self.load(self.processed_paths[0])

        processed_file_names = "data.pt"

        def process(self):
            ring = torch.stack([torch.arange(30), (torch.arange(30) + 1) % 30])
            self.save(
                [Data(torch.randn(30, 2), ring, y=torch.tensor([k % 2])) for k in range(6)], self.processed_paths[0]
            )

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(datasets, "Rings", Rings, raising=False)
    first = load_graphs("pyg:Rings")
    assert kept_file(tmp_path).name.startswith("Rings-")
    assert not list(tmp_path.rglob("processed/*.npz"))
    monkeypatch.setattr(GraphStore, "of", None)  # no graph is read again
    again = load_graphs("pyg:Rings")
    assert torch.equal(first.train.sample(0)["x"], again.train.sample(0)["x"])


def test_masks_of_nodes():
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data

    from chimera_lab.data.pyg import _of_masks

    part = torch.tensor([0, 0, 1, 2])
    masks = {f"{name}_mask": part == k for k, name in enumerate(("train", "val", "test"))}
    edges = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 1]])
    data = _of_masks(Data(x=torch.randn(4, 3), edge_index=edges, y=torch.tensor([0, 1, 2, 1]), **masks))
    assert (data.level, data.num_labels, data.node_features, data.edge_features) == ("node", 3, 3, None)
    assert data.train.sample(0)["labels"].tolist() == [0, 1, -1, -1]
    assert data.test.sample(0)["labels"].tolist() == [-1, -1, -1, 1]
    assert data.train.sample(0)["pyg_topology"].edge.tolist() == [0, 1, 2, 0]


def test_nodes_in_no_mask_are_for_testing():
    pytest.importorskip("torch_geometric")
    data = load_graphs("pyg:KarateClub")
    train, test = (part.sample(0)["labels"] for part in (data.train, data.test))
    assert data.validation is None
    assert ((train >= 0).sum(), (test >= 0).sum()) == (4, 30)
    assert ((train >= 0) ^ (test >= 0)).all()
