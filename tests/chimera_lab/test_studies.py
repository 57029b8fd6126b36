"""Studies: rows at equal size, tuned and trained alike, resumable."""

from dataclasses import replace

import pytest
import torch

from chimera_lab.data import sequences
from chimera_lab.planning.synthetic_data import task_without_data
from chimera_lab.recipes import find_recipe
from chimera_lab.studies import all_studies, find_studies, find_study
from chimera_lab.studies.report import markdown, report
from chimera_lab.studies.results import RowResult
from chimera_lab.studies.runner import count_steps, run_study
from chimera_lab.studies.study import Row, Section, Study, differences
from chimera_lab.studies.tables import TABLES
from chimera_lab.studies.workers import Workers
from chimera_lab.training.checkpoints import best_path
from chimera_lab.training.fit import evaluate
from chimera_lab.training.kinds import count_parameters
from chimera_lab.training.recipe import RuntimeConfig
from chimera_lab.training.records import read_table
from chimera_lab.training.run import open_run

RECIPE = replace(
    find_recipe("image/digits"),
    hidden_size=32,
    num_hidden_layers=1,
    state_size=8,
    num_heads=2,
    epochs=1,
    train_limit=128,
)


def study(**changes):
    section = Section(
        "Mixers",
        (
            Row("Chimera", {}, {"top1": 0.778}),
            Row("ViT", {"mixer": "vit"}, {"top1": 0.75}),
            Row("ResNet", None, {"top1": 0.76}),
        ),
        expected=("Chimera", "ViT"),
        evaluations={"larger": {"image_size": 12}},
    )
    again = Section("Again", (Row("the same", {}),))
    values = {"doc": "tiny", "recipe_name": "image/digits", "recipe": RECIPE, "sections": (section, again)}
    values |= {"metric": "top1", "learning_rates": (1e-3,), "seeds": 1}
    return Study(**(values | changes))


def test_a_study_from_training_to_report_and_again(tmp_path):
    lines, steps = [], []
    workers = Workers(2, lines.append, steps.append, RuntimeConfig(devices=1))
    results = run_study(study(), tmp_path, workers)
    assert len(steps) == count_steps(study()) == 6
    rows, runs = ("chimera", "vit"), ("lr-0.001: validation", "seed-0: test")
    told = {line.rpartition(" ")[0] for line in lines}
    assert told == {f"image/digits, {row}, {run} top1" for row in rows for run in runs}
    assert list(results) == ["Chimera", "ViT"]
    assert results["Chimera"].sweep.keys() == {"0.001"}
    assert 0 <= results["ViT"].figures["larger"]["top1"][0] <= 1
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    assert run_study(study(), tmp_path, workers) == results
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")} == before
    with pytest.raises(ValueError, match="holds a study with other settings"):
        run_study(study(recipe=replace(RECIPE, epochs=2)), tmp_path, workers)
    part = run_study(study().part("Again"), tmp_path, workers)
    assert list(part) == ["Chimera"]
    assert part["Chimera"].figures["test"] == results["Chimera"].figures["test"]
    text = markdown(report(study(), results, "chimera reproduce tiny"))
    assert "| Chimera |" in text
    assert "77.80" in text
    assert "| ResNet (paper only) |" in text
    assert "| the same |" in text


def test_rows_have_equal_parameters(monkeypatch):
    monkeypatch.setattr(sequences, "TRAIN", 2)
    monkeypatch.setattr(sequences, "TEST", 2)
    names = "mazes", "pathfinder", "sequences"
    for value in (study(), find_study_of_images(), *map(find_study, names)):
        # Positions beyond the length of the training data are not counted.
        recipes = [replace(r, positions=None) if hasattr(r, "positions") else r for r in value.recipes().values()]
        counts = [count_parameters(recipe) for recipe in recipes]
        assert max(counts) <= 1.03 * counts[0]
        assert min(counts) >= 0.97 * counts[0]


def find_study_of_images():
    images = find_study("images")
    # digits stand in for data that may not be installed; they have as many classes
    return replace(images, recipe=replace(images.recipe, data="digits", train_limit=None))


def results_of(a, b):
    figures = {n: {column: {"top1": f} for column in ("test", "larger")} for n, f in (("Chimera", a), ("ViT", b))}
    return {n: RowResult(n, 10, 1e-3, {}, f, 1.0) for n, f in figures.items()}


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ([0.9, 0.91], [0.8, 0.81], "holds"),
        ([0.8, 0.81], [0.9, 0.91], "is reversed"),
        ([0.8, 0.9], [0.84, 0.85], "not decided"),
    ],
)
def test_an_order_is_claimed_only_beyond_two_standard_deviations(a, b, verdict):
    assert verdict in markdown(report(study(), results_of(a, b), "x"))


def test_more_seeds_do_not_narrow_two_standard_deviations():
    text = markdown(report(study(), results_of([0.88, 0.9, 0.92], [0.84, 0.86, 0.88]), "x"))
    assert "Chimera > ViT is not decided (+4.00, two standard deviations 5.66)" in text


def test_every_row_of_a_group_is_compared_with_every_row_of_the_next():
    section = Section("", (), expected=(("a", "b"), "c", ("d", "e")))
    assert section.pairs() == [("a", "c"), ("b", "c"), ("c", "d"), ("c", "e")]


def test_losses_are_not_in_per_cent_and_smaller_ones_are_better():
    losses = study(metric="loss", also=("top1",), larger_is_better=False)
    results = results_of([0.5, 0.6], [0.5, 0.6])
    for value, shift in zip(results.values(), (2.0, 3.0), strict=True):
        for column in value.figures.values():
            column["loss"] = [shift, shift + 0.1]
    text = markdown(report(losses, results, "x"))
    assert "| model | test, loss | test, top1 | larger, loss | larger, top1 | lead of the first row |" in text
    assert "| Chimera | 2.050 ± 0.071 | 55.00 ± 7.07 |" in text
    assert "Chimera > ViT holds (+1.000" in text
    assert "Results are loss and top1 in per cent" in " ".join(text.split())


def test_what_comes_then_and_the_majority_are_reported():
    later = study(doc="Later.", sections=(Section("After", (Row("Chimera", {"from_": "Chimera"}),)),), majority=True)
    results, guessed = results_of([0.9, 0.9], [0.8, 0.8]), {"test": {"top1": [0.5]}}
    after = {"Chimera": results["Chimera"], "majority": RowResult("majority", 0, 0.0, {}, guessed, 0.0)}
    whole = study(then={"later": later})
    text = markdown(report(whole, results, "x", {"later": after}))
    assert "## After" in text
    assert "| majority | 50.00 |  |  |  |" in text
    assert text.split("\n\n")[-1].startswith("Later. Recipe `image/digits`")
    assert count_steps(whole) == count_steps(study()) + 2
    assert whole.on("here").then["later"].recipe.data == "here"


def test_data_are_in_the_folder_of_their_name_or_in_the_folder_itself(tmp_path):
    text = find_study("text")
    (tmp_path / "wikitext-2").mkdir()
    on = text.on(str(tmp_path))
    assert on.recipe.data == str(tmp_path / "wikitext-2")
    assert {study.recipe.data for study in on.then.values()} == {str(tmp_path)}
    assert find_study("c4").on(str(tmp_path)).recipe.data == str(tmp_path)


def test_a_failing_run_is_named(tmp_path):
    bad = study(recipe=replace(RECIPE, batch_size=10_000))
    with pytest.raises(ValueError, match="a batch has 10000 samples"):
        run_study(bad, tmp_path, Workers(1, lambda _: None, lambda _: None, RuntimeConfig(devices=1)))


def test_a_sweep_takes_what_diverged_for_the_worst():
    from chimera_lab.studies.runner import _best

    nan, inf = float("nan"), float("inf")
    assert _best(study(), {1e-3: 0.1, 1e-2: nan}) == 1e-3
    assert _best(study(larger_is_better=False), {1e-3: nan, 1e-2: 0.1, 1e-1: inf}) == 1e-2
    assert _best(study(), {1e-2: nan, 1e-3: nan}) == 1e-3


def test_rows_that_diverged_are_reported_as_such():
    results = results_of([0.9, 0.91], [0.8, float("nan")])
    results["ViT"] = replace(results["ViT"], diverged=1)
    text = markdown(report(study(seeds=2), results, "x"))
    assert "| ViT (1 of 2 seeds diverged) | 80.00 (1 of 2 seeds) | 80.00 (1 of 2 seeds) | +10.50 |  | 75.00 |" in text
    results = results_of([0.9, 0.91], [float("nan")] * 2)
    results["ViT"] = replace(results["ViT"], diverged=2)
    text = markdown(report(study(seeds=2), results, "x"))
    assert "| ViT (diverged) | – | – |  |  | 75.00 | +2.80 | 10 |" in text
    assert "nan" not in text.lower()


def test_names():
    laptop, paper = (
        [
            "images",
            "mazes",
            "pathfinder",
            "text",
            "graphs",
            "long-range",
            "molecules",
            "properties",
            "scenes",
            "trees",
            "transfer",
        ],
        ["imagenet", "imagenet-small", "c4"],
    )
    assert {*laptop, *paper, "peptides-func", "coco-sp"} < {*all_studies()}
    with pytest.raises(ValueError, match="did you mean 'images'"):
        find_study("image")
    with pytest.raises(ValueError, match="did you mean 'topology'"):
        find_studies("topolgy")
    with pytest.raises(ValueError, match="images is a study of one scale"):
        find_studies("images", "paper")


def test_what_the_paper_has_is_printed_beside_ours():
    results = results_of([0.9, 0.91], [0.8, 0.81])
    text = markdown(report(study(), results, "x"))
    assert "| two standard deviations | paper | lead in the paper | parameters | learning rate |" in text
    assert "| Chimera | 90.50 ± 0.71 | 90.50 ± 0.71 |  |  | 77.80 |  | 10 | 0.001 |" in text
    assert "| ViT | 80.50 ± 0.71 | 80.50 ± 0.71 | +10.00 | 2.00 | 75.00 | +2.80 | 10 | 0.001 |" in text
    assert "| ResNet (paper only) |  |  |  |  | 76.00 | +1.80 |  |  |" in text
    assert "the paper has Chimera, ViT; here Chimera, ViT: 1 of 1 pairs are in the paper's order" in " ".join(
        text.split()
    )
    text = markdown(report(study(), results_of([0.8, 0.81], [0.9, 0.91]), "x"))
    assert "the paper has Chimera, ViT; here ViT, Chimera: 0 of 1 pairs" in " ".join(text.split())


def test_the_difference_from_the_paper_is_shown_where_the_task_is_the_same():
    results = results_of([0.9, 0.91], [0.8, 0.81])
    assert "difference from the paper" not in markdown(report(study(), results, "x"))
    text = markdown(report(study(learning_rates=()), results, "x"))
    assert "| Chimera | 90.50 ± 0.71 | 90.50 ± 0.71 |  |  | 77.80 | +12.70 |  | 10 | 0.001 |" in text
    assert "| ViT | 80.50 ± 0.71 | 80.50 ± 0.71 | +10.00 | 2.00 | 75.00 | +5.50 | +2.80 | 10 | 0.001 |" in text


def test_with_one_seed_no_order_is_claimed():
    assert "cannot be decided with one seed" in markdown(report(study(), results_of([0.9], [0.8]), "x"))


def test_the_average_over_tasks_is_that_of_the_paper_over_the_same_tasks():
    def task(figure):
        return study(sections=(Section("Task", (Row("Chimera", {"from_": "Chimera"}, {"top1": figure}),)),))

    whole = study(then={"one": task(0.5), "two": task(0.7)})
    found = results_of([0.8, 0.9], [0.1, 0.1])
    text = markdown(report(whole, found, "x", {"one": found, "two": found}))
    assert "## Average of 2 tasks" in text
    assert "| Chimera | 85.00 ± 7.07 | 60.00 |" in text


def test_a_part_keeps_names_sizes_and_what_can_still_come_then():
    later = study(sections=(Section("After", (Row("ViT", {"from_": "ViT"}),)),))
    whole = study(then={"later": later})
    assert [row.name for row in whole.part("Again").rows] == ["Chimera"]
    assert whole.part("Again").then == {}
    assert [*whole.part("Mixers").then] == ["later"]
    assert whole.part("Mixers").recipes() == whole.recipes()


def test_a_later_study_with_more_seeds_starts_from_the_same_runs(tmp_path):
    from chimera_lab.studies.runner import _of_seed

    recipe = replace(find_recipe("text/glue-cola"), from_="Chimera dag")
    starts = [_of_seed(recipe, seed, (tmp_path, study(seeds=2))).from_ for seed in range(3)]
    assert starts == [str(tmp_path / "chimera-dag" / f"seed-{k}") for k in (0, 1, 0)]


#: Rows that the paper does not have.
ADDED = "Chimera, two DAGs", "Chimera 2d, L = I", "Chimera 2d, no convolution", "NeuralWalker with Chimera"


@pytest.mark.parametrize("scale", ["laptop", "paper"])
@pytest.mark.parametrize("table", TABLES)
def test_every_table_has_a_study_at_both_scales(table, scale):
    for part in find_studies(table, scale).values():
        (section,) = part.shown
        assert len(part.rows) >= 3
        assert section.rows[0].changes is not None
        assert all(row.paper for row in section.rows if row.name not in ADDED)
        for row in part.rows:
            assert differences(part.recipe, replace(part.recipe, **row.changes)).keys() <= row.changes.keys()


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_topologies_are_compared_with_the_same_convolution(scale):
    (part,) = find_studies("topology", scale).values()
    recipes = replace(part, matched=False).recipes()
    windows = set()
    for name in ("Chimera 2d", "Chimera fwd_rev", "Chimera fwd"):
        task = task_without_data(replace(recipes[name], data="imagenet", num_channels=3))
        with torch.device("meta"):
            conv = task.build_model(recipes[name]).chimera.layers[0].mixer.conv
        windows.add((tuple(conv.weight.shape[1:]), conv.causal))
    assert windows == {((3, 3), False)}
    assert recipes["Chimera 2d, L = I"].resolvent == "identity"
    assert recipes["Chimera 2d, L = I"].conv
    assert not recipes["Chimera 2d, no convolution"].conv


def test_weights_chosen_on_the_validation_part_are_tested_once(tmp_path):
    """While it is trained, a run sees the validation part alone; then the test part is read, with the best weights."""
    pytest.importorskip("torch_geometric")
    pytest.importorskip("ogb")
    data = tmp_path / "alkanes"
    data.mkdir()
    for name, sizes in (("train", range(1, 9)), ("val", range(2, 6)), ("test", range(3, 9))):
        lines = [f"{n * 'C'},{n % 2},{int(n > 4)}" for n in sizes]
        (data / f"{name}.csv").write_text("\n".join(["smiles,a,b", *lines]) + "\n")
    recipe = replace(
        find_recipe("graph/peptides-func", "paper"), data=str(data), targets="a,b", num_hidden_layers=1, hidden_size=8,
        state_size=4, head_layers=2, epochs=3, warmup_epochs=1, batch_size=4, lr=3e-2,
    )  # fmt: skip
    rows = (Section("Networks", (Row("Chimera", {}), Row("GCN", {"mixer": "gcn"}))),)
    small = study(
        recipe_name="graph/peptides-func", recipe=recipe, sections=rows, metric="ap", learning_rates=(),
        matched=False, test={"part": "test"},
    )  # fmt: skip
    lines, steps = [], []
    results = run_study(small, tmp_path / "study", Workers(2, lines.append, steps.append, RuntimeConfig(devices=1)))
    assert len(steps) == count_steps(small) == 4
    assert all(": validation ap" in line for line in lines)
    for name in ("chimera", "gcn"):
        run = open_run(tmp_path / "study" / name / "seed-0")
        laps = read_table(run.folder / "metrics.csv")
        chosen = max(range(3), key=lambda n: float(laps[n]["validation_ap"]))
        assert not any(column.startswith("test") for column in laps[0])
        best = evaluate(run, replace(recipe, part="test", export="raw"), best_path(run.checkpoints))
        assert best.evaluated_on == "test data"
        assert best.step == int(laps[chosen]["step"])
        found = results[{"chimera": "Chimera", "gcn": "GCN"}[name]].figures["test"]["ap"]
        assert found == pytest.approx([best.metrics["ap"]])
    assert "best on validation data" in markdown(report(small, results, "x"))


@pytest.mark.parametrize("name", ["peptides-func", "peptides-struct", "pascalvoc-sp", "coco-sp"])
def test_the_benchmark_has_the_paper_s_learning_rate_and_chooses_on_validation_data(name):
    benchmark = find_study(name)
    assert benchmark.learning_rates == ()
    assert benchmark.recipe.lr == {"peptides-func": 1e-3, "peptides-struct": 1.5e-3}.get(name, 3.5e-3)
    assert (benchmark.recipe.part, benchmark.recipe.export) == ("validation", "best")
    assert benchmark.test == {"part": "test"}
    own = {row.name for row in benchmark.rows if "lr" in row.changes}  # published with their networks
    assert own == {
        "SAN + LapPE", "Exphormer", "Graph-Mamba (Wang et al.)", "NeuralWalker", "NeuralWalker with Chimera",
    }  # fmt: skip


def test_fine_tuning_at_the_paper_s_scale_cuts_texts_to_what_a_model_can_read():
    for task in find_study("c4").then.values():
        lengths = {name: recipe.length for name, recipe in task.recipes().items()}
        assert lengths == dict.fromkeys(lengths, 256) | {"MLP-Mixer": 128}


#: Millions of parameters, as the paper says, and of S4 in ViT's block as counted: the paper says 88.
SIZES = {
    "imagenet": {"Chimera 2d": 88, "ViT": 88, "S4-ViT": 81.25, "Hyena-ViT": 88},
    "imagenet-small": {"Chimera 2d": 22},
    "c4": {"Chimera dag": 110, "Chimera ug": 110, "BERT": 110, "FNet": 112, "MLP-Mixer": 112, "M2": 116}
    | dict.fromkeys(("Chimera, 12 layers", "Chimera, 6 layers", "BERT, 6 layers"), 70),
    "peptides-func": {"Chimera, exact": 0.499},
    "coco-sp": {"Chimera, exact": 0.489},
}


@pytest.mark.parametrize("name", SIZES)
def test_models_at_the_paper_s_scale_are_as_large(name):
    whole = find_study(name)
    for row, millions in SIZES[name].items():
        recipe = replace(whole, matched=False).recipes()[row]
        task = task_without_data(recipe)
        with torch.device("meta"):
            model = task.build_model(recipe)
        assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, rel=0.05)
