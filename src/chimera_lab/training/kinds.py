"""The kinds of data: the recipe class and the task class of each."""

from __future__ import annotations

from chimera_lab.training.causal_recipe import CausalRecipe
from chimera_lab.training.causal_task import CausalTask
from chimera_lab.training.glue_recipe import GlueRecipe
from chimera_lab.training.glue_task import GlueTask
from chimera_lab.training.graph_recipe import GraphRecipe
from chimera_lab.training.graph_task import GraphTask
from chimera_lab.training.image_recipe import ImageRecipe
from chimera_lab.training.image_task import ImageTask
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.task import Task
from chimera_lab.training.text_recipe import TextRecipe
from chimera_lab.training.text_task import TextTask

_RECIPES: dict[str, type[Recipe]] = {
    cls.kind: cls for cls in (ImageRecipe, TextRecipe, CausalRecipe, GlueRecipe, GraphRecipe)
}
_TASKS: dict[str, type[Task]] = {
    "image": ImageTask, "text": TextTask, "causal": CausalTask, "glue": GlueTask, "graph": GraphTask,
}  # fmt: skip


def recipe_class(kind: str) -> type[Recipe]:
    """The recipe class of a kind of data."""
    if kind not in _RECIPES:
        raise ValueError(f"unknown kind of data {kind!r}; there are: {', '.join(_RECIPES)}")
    return _RECIPES[kind]


def create_task(recipe: Recipe) -> Task:
    """The task of a recipe; its data are loaded when first used."""
    return _TASKS[recipe.kind](recipe)


def count_parameters(recipe: Recipe) -> int:
    """Number of trainable parameters of a recipe's model."""
    return sum(p.numel() for p in create_task(recipe).build_model(recipe).parameters() if p.requires_grad)


def match_parameters(recipe: Recipe, target: int) -> Recipe:
    """The recipe with its width changed so that the model has ``target`` parameters, within 3 %."""
    return create_task(recipe).match_parameters(target)
