"""The studies of graphs: rows of equal size, and their figures."""

from dataclasses import replace

import pytest

from chimera_lab.data import scenes
from chimera_lab.data.pyg import LRGB
from chimera_lab.studies import find_study
from chimera_lab.studies.figures import against_distance, learning_curves
from chimera_lab.studies.report import markdown, report
from chimera_lab.studies.results import RowResult
from chimera_lab.studies.study import run_folder
from chimera_lab.training.kinds import count_parameters

pytest.importorskip("torch_geometric")
pytest.importorskip("matplotlib")


def results(study):
    titles = study.sections[0].evaluations
    return {
        row.name: RowResult(row.name, 10, 1e-3, {}, {t: {study.metric: [0.25, 0.75]} for t in titles}, 1.0)
        for row in study.rows
    }


@pytest.mark.parametrize("name", ["graphs", "long-range", "molecules", "properties", "trees", "transfer", "scenes"])
def test_rows_have_equal_parameters(name, tmp_path, monkeypatch):
    monkeypatch.setattr(scenes, "TRAIN", 2)
    monkeypatch.setattr(scenes, "TEST", 1)
    monkeypatch.setattr("chimera_lab.data.graph.add_positions", lambda *_: None)  # which do not change the counts
    study = find_study(name)
    data = {"data": "rings:1"} if name == "long-range" else {}
    if name == "graphs":  # alkanes stand in for peptides, which are not here
        pytest.importorskip("ogb")
        path = tmp_path / "alkanes.csv"
        path.write_text(
            "smiles,a,b,c,d,e,f,g,h,i,j\n" + "".join(f"{n * 'C'}{n * ',1'}{(10 - n) * ',0'}\n" for n in range(1, 9))
        )
        data = {"data": str(path), "targets": "a,b,c,d,e,f,g,h,i,j", "problem": "multi_label_classification"}
    recipes = replace(study, recipe=replace(study.recipe, **data)).recipes()
    expected = {
        "graphs": 17, "long-range": 16, "molecules": 8, "properties": 42, "trees": 14, "transfer": 14, "scenes": 7,
    }  # fmt: skip
    assert len(recipes) == expected[name]
    counts = [count_parameters(recipe) for recipe in recipes.values()]
    assert max(counts) <= 1.03 * counts[0]
    assert min(counts) >= 0.97 * counts[0]


@pytest.mark.parametrize("name", ["graphs", *LRGB])
def test_chimera_is_expected_ahead_of_the_networks_that_it_is_ahead_of_in_the_paper(name):
    study = find_study(name)
    section = study.sections[0]
    first, *others = (row for row in section.rows if row.changes is not None)
    sign = 1 if study.larger_is_better else -1
    behind = [
        row.name for row in others if row.paper and sign * (first.paper[study.metric] - row.paper[study.metric]) > 0
    ]
    assert section.pairs() == [(first.name, name) for name in behind]
    ahead = {row.name for row in others} - {*behind}
    assert ahead <= {"Graph Mamba (Behrouz and Hashemi)", "NeuralWalker", "NeuralWalker with Chimera"}


@pytest.mark.parametrize("name", LRGB)
def test_every_row_of_table_4_is_built_at_the_papers_scale(name):
    section = find_study(name).sections[0]
    quoted = {row.name for row in section.rows if row.changes is None}
    assert quoted == {"GCN, first", "GINE, first", "GatedGCN, first", "GPS + Transformer, first"}


def test_the_report_tells_of_pairs_that_are_reversed():
    study = find_study("graphs")
    figures = {"Chimera, exact": [0.422, 0.426], "GCN": [0.480, 0.483], "GPS + Transformer": [0.397, 0.403]}
    found = {
        row.name: RowResult(row.name, 10, 1e-3, {}, {"test": {"ap": figures.get(row.name, [0.42, 0.43])}}, 1.0)
        for row in study.rows
    }
    text = " ".join(markdown(report(study, found, "x")).split())
    assert "Chimera, exact > GCN is reversed (-5.75, two standard deviations 0.71)" in text
    assert "Chimera, exact > GatedGCN is not decided (-0.10, two standard deviations 1.52)" in text
    assert "Chimera, exact > GPS + Transformer holds (+2.40, two standard deviations 1.02)" in text


def test_accuracy_against_distance(tmp_path):
    study = find_study("long-range")
    figure = against_distance(study, results(study), tmp_path)
    for axes, rows in zip(figure.axes, (9, 8), strict=True):  # a panel for each section
        assert axes.get_xlabel() == "hops"
        assert len(axes.containers) == rows
        line, _, _ = axes.containers[0]
        assert line.get_xdata().tolist() == [2, 3, 4, 6, 8, 12, 24, 32]
        assert line.get_ydata().tolist() == [50.0] * 8
    assert len(figure.legends[0].get_texts()) == 16  # the first row is in both
    figure.savefig(tmp_path / "figure.png")


@pytest.mark.parametrize("title", ["Accuracy by distance", "Accuracy by distance: the other networks of table 4"])
def test_accuracy_against_distance_of_a_section(title, tmp_path):
    study = find_study("long-range").part(title)
    (axes,) = against_distance(study, results(study), tmp_path).axes
    labels = [line.get_label() for line in axes.containers]
    assert labels == [row.name for row in study.shown[0].rows]


def test_learning_curves(tmp_path):
    study = find_study("graphs")
    for row in study.rows:
        for seed in range(study.seeds):
            folder = run_folder(tmp_path, row.name, f"seed-{seed}")
            folder.mkdir(parents=True)
            (folder / "metrics.csv").write_text(
                "step,epoch,train_loss,test_loss,test_ap\n3,1.0,2,2,0.25\n6,2.0,1,1,0.5\n"
            )
    figure = learning_curves(study, results(study), tmp_path)
    (axes,) = figure.axes
    assert len(axes.lines) == 51  # seventeen rows, three seeds
    assert axes.lines[0].get_ydata().tolist() == [0.25, 0.5]
    assert len(figure.legends[0].get_texts()) == 17


@pytest.mark.parametrize("name", ["graphs", "long-range", "molecules", "properties", "transfer", "images"])
def test_rows_have_folders_of_their_own(name, tmp_path):
    study = find_study(name)
    assert len({run_folder(tmp_path, row.name, "seed-0") for row in study.rows}) == len(study.rows)
