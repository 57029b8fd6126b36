"""Settings: read from text and yaml, typed, bounded, refused with a sentence."""

import dataclasses
from typing import Literal

import pytest

from chimera_lab.training.image_recipe import ImageRecipe
from chimera_lab.training.kinds import recipe_class
from chimera_lab.training.recipe import RuntimeConfig
from chimera_lab.training.settings import Settings, as_dict, from_dict, keys, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example(Settings):
    count: int = setting(3, "how many", least=1, most=1000)
    rate: float = setting(0.5, "how fast", above=0, below=1)
    share: float = setting(0.5, "how much")
    pair: tuple[float, float] = setting((0.1, 0.2), "two of them", least=0)
    maybe: int | None = setting(None, "if any", least=1)
    choice: Literal["a", "b"] = setting("a", "which")
    flag: bool = setting(False, "whether")
    name: str = setting("x", "called")


KEYS = {key.name: key for key in keys(Example)}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "7", 7), ("count", "1e2", 100), ("rate", "1e-3", 1e-3), ("rate", ".5", 0.5),
        ("pair", "0,1e-1", (0, 0.1)), ("flag", "False", False),
        ("maybe", "none", None), ("maybe", "4", 4), ("choice", "b", "b"), ("flag", "yes", True),
        ("name", "a b", "a b"),
    ],
)  # fmt: skip
def test_text_is_read_by_type(name, text, value):
    found = KEYS[name].parse(text)
    assert found == value
    assert type(found) is type(value)


def test_help_names_the_choices():
    assert KEYS["choice"].help == "which; one of a, b"
    assert KEYS["count"].help == "how many"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("count", "2.5", "count must be a whole number, found '2.5'"), ("count", "inf", "count must be a whole number"),
        ("count", "0", "count must be at least 1, found 0"), ("count", "1001", "count must be at most 1000"),
        ("rate", "fast", "rate must be a finite number, found 'fast'"),
        ("rate", "1", "rate must be below 1, found 1.0"),
        ("rate", "0", "rate must be above 0"), ("rate", "nan", "rate must be a finite number, found nan"),
        ("share", "inf", "share must be a finite number, found inf"),
        ("share", "-inf", "share must be a finite number"),
        ("pair", "inf,0", "pair must be 2 values"),
        ("pair", "1", "pair must be 2 values with commas between"), ("pair", "0,-1", "pair must be at least 0"),
        ("maybe", "x", "maybe must be a whole number, or none"), ("maybe", "0", "maybe must be at least 1"),
        ("choice", "c", "choice must be one of a, b, found 'c'"), ("flag", "perhaps", "flag must be true or false"),
    ],
)  # fmt: skip
def test_bad_text_is_refused(name, text, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        KEYS[name].parse(text)


def test_settings_are_checked_when_made():
    with pytest.raises(ValueError, match="count must be a whole number, found True"):
        Example(count=True)
    with pytest.raises(ValueError, match="pair must be 2 values"):
        Example(pair=(1.0,))


@pytest.mark.parametrize(
    "settings", [Example(pair=(0.0, 1.0), maybe=2), ImageRecipe(epochs=1), RuntimeConfig(devices=2)]
)
def test_plain_values_are_read_back(settings):
    import yaml

    assert from_dict(type(settings), yaml.safe_load(yaml.safe_dump(as_dict(settings)))) == settings


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"unknown setting 'rat', did you mean 'rate'\?"):
        from_dict(Example, {"rat": 1})
    with pytest.raises(ValueError, match="unknown kind of data 'sound'; there are: image"):
        recipe_class("sound")


@pytest.mark.parametrize("cls", [ImageRecipe, RuntimeConfig])
def test_every_setting_is_documented_in_a_line(cls):
    for key in keys(cls):
        assert 5 < len(key.doc) < 100, key.name
        assert "\n" not in key.doc


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "either epochs or steps"), ({"epochs": 1, "steps": 1}, "either epochs or steps"),
        ({"epochs": 1, "warmup_epochs": 1.0, "warmup_steps": 1}, "either epochs or steps"),
        ({"epochs": 1, "export": "best"}, "set validation"), ({"epochs": 1, "patch_size": 3}, "multiple of patch_size"),
    ],
)  # fmt: skip
def test_recipes_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        ImageRecipe(**changes)
