"""Studies: rows at equal size, tuned and trained alike, resumable."""

from dataclasses import replace

import pytest

from chimera_ssm.recipes import find_recipe
from chimera_ssm.studies import all_studies, find_study
from chimera_ssm.studies.conduct import RowResult, conduct, count_steps
from chimera_ssm.studies.report import markdown
from chimera_ssm.studies.study import Row, Section, Study

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
        (Row("Chimera", {}, "77.8"), Row("ViT", {"mixer": "vit"})),
        expected=("Chimera", "ViT"),
        evaluations={"larger": {"image_size": 12}},
    )
    again = Section("Again", (Row("the same", {}),))
    values = {"doc": "tiny", "recipe_name": "image/digits", "recipe": RECIPE, "sections": (section, again)}
    values |= {"metric": "top1", "learning_rates": (1e-3,), "seeds": 1}
    return Study(**(values | changes))


def test_a_study_from_training_to_report_and_again(tmp_path):
    lines, steps = [], []
    results = conduct(study(), tmp_path, 2, lines.append, steps.append)
    assert len(steps) == count_steps(study()) == 6
    assert list(results) == ["Chimera", "ViT"]
    assert results["Chimera"].sweep.keys() == {"0.001"}
    assert 0 <= results["ViT"].figures["larger"]["top1"][0] <= 1
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    assert conduct(study(), tmp_path, 1, lines.append, steps.append) == results
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")} == before
    with pytest.raises(ValueError, match="holds a study with other settings"):
        conduct(study(recipe=replace(RECIPE, epochs=2)), tmp_path, 1, lines.append, steps.append)
    text = markdown(study(), results, "chimera reproduce tiny")
    assert "| Chimera |" in text
    assert "77.8" in text
    assert "| the same |" in text


def test_rows_have_equal_parameters():
    for value in (study(), find_study_of_images()):
        counts = [recipe.parameters() for recipe in value.recipes().values()]
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
def test_an_order_is_claimed_only_beyond_two_standard_errors(a, b, verdict):
    assert verdict in markdown(study(), results_of(a, b), "x")


def test_two_deviations_are_more_than_two_errors():
    results = results_of([0.88, 0.9, 0.92], [0.84, 0.86, 0.88])
    assert "Chimera > ViT holds" in markdown(study(), results, "x")
    assert "Chimera > ViT is not decided" in markdown(study(standard="deviations"), results, "x")


def test_every_row_of_a_group_is_compared_with_every_row_of_the_next():
    section = Section("", (), expected=(("a", "b"), "c", ("d", "e")))
    assert section.pairs() == [("a", "c"), ("b", "c"), ("c", "d"), ("c", "e")]


def test_losses_are_not_in_per_cent_and_smaller_ones_are_better():
    losses = study(metric="loss", also=("top1",), larger_is_better=False)
    results = results_of([0.5, 0.6], [0.5, 0.6])
    for value, shift in zip(results.values(), (2.0, 3.0), strict=True):
        for column in value.figures.values():
            column["loss"] = [shift, shift + 0.1]
    text = markdown(losses, results, "x")
    assert "| model | test, loss | test, top1 | larger, loss | larger, top1 | paper" in text
    assert "| Chimera | 2.050 ± 0.071 | 55.00 ± 7.07 |" in text
    assert "Chimera > ViT holds (+1.00" in text
    assert "Figures are loss and top1 in per cent" in text


def test_what_comes_then_and_the_majority_are_reported():
    later = study(doc="Later.", sections=(Section("After", (Row("Chimera", {"from_": "Chimera"}),)),), majority=True)
    results, guessed = results_of([0.9, 0.9], [0.8, 0.8]), {"test": {"top1": [0.5]}}
    after = {"Chimera": results["Chimera"], "majority": RowResult("majority", 0, 0.0, {}, guessed, 0.0)}
    whole = study(then={"later": later})
    text = markdown(whole, results, "x", {"later": after})
    assert "## After" in text
    assert "| majority | 50.00 |  |  |  |" in text
    assert text.rstrip().splitlines()[-1].startswith("Later. Recipe `image/digits`")
    assert count_steps(whole) == count_steps(study()) + 2
    assert whole.on("here").then["later"].recipe.data == "here"


def test_a_failing_run_is_named(tmp_path):
    bad = study(recipe=replace(RECIPE, batch_size=10_000))
    with pytest.raises(ValueError, match="a batch has 10000 samples"):
        conduct(bad, tmp_path, 1, lambda _: None, lambda _: None)


def test_names():
    assert [*all_studies()] == ["images", "text", "graphs", "truncation", "long-range"]
    with pytest.raises(ValueError, match="did you mean 'images'"):
        find_study("image")
