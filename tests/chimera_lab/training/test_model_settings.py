"""Settings derived from a configuration: name, type, default, choices and documentation are declared once."""

from dataclasses import dataclass
from typing import Any

import pytest
from transformers import PreTrainedConfig

from chimera_lab.training.graph_recipe import GraphRecipe
from chimera_lab.training.image_recipe import ImageRecipe
from chimera_lab.training.model_settings import model_settings
from chimera_lab.training.settings import Settings, keys, setting
from chimera_lab.training.text_recipe import TextRecipe


class Config(PreTrainedConfig):
    """A model.

    Args:
        width: features of a node; the ``depth`` follows.
        norm: the norm: ``"batch"``, over nodes; or
            ``None``.
        secret: not a setting.
    """

    model_type = "test_model_settings"

    width: int = 8
    norm: str | None = "batch"
    secret: float = 0.5

    @classmethod
    def choices(cls) -> dict[str, Any]:
        return {"norm": ("batch", None)}

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if self.width < 1:
            raise ValueError(f"width must be at least 1, found {self.width}")


Model: Any = model_settings(Config, exclude=("secret",), width=4)


@dataclass(frozen=True, kw_only=True)
class Example(Model, Settings):
    seed: int = setting(0, "the seed")


def test_a_hyperparameter_of_the_configuration_is_a_setting():
    found = {key.name: (key.default, key.help) for key in keys(Example)}
    assert found == {
        "width": (4, "features of a node"),
        "norm": ("batch", "the norm; one of batch, or none"),
        "seed": (0, "the seed"),
    }
    assert Example(norm=None).model_values() == {"width": 4, "norm": None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"width": 0}, "width must be at least 1, found 0"), ({"norm": "layer"}, "norm must be one of batch, or none")],
)
def test_the_configuration_refuses_bad_values(changes, message):
    with pytest.raises(ValueError, match=message):
        Example(**changes)


@pytest.mark.parametrize("recipe", [ImageRecipe, TextRecipe, GraphRecipe])
def test_recipes_build_their_configuration(recipe):
    made = recipe(epochs=1)
    config = made.model_config(**made.model_values())
    assert {name: getattr(config, name) for name in made.model_names} == made.model_values()
    for key in keys(recipe):
        assert 5 < len(key.doc) < 110, key.name
