"""The settings of fine-tuning on GLUE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chimera_lab.training.recipe import Recipe
from chimera_lab.training.settings import setting


@dataclass(frozen=True, kw_only=True)
class GlueRecipe(Recipe):
    """Classes and scores of sentences, by a model that was pretrained on masked words."""

    kind: ClassVar[str] = "glue"

    glue: Literal["cola", "sst2", "mrpc", "qqp", "stsb", "mnli", "qnli", "rte"] = setting("cola", "GLUE task")
    data: str = setting("glue", "a folder with the official tsv files; glue: through datasets", at_eval=True, place=())
    from_: str = setting("", "a finished run of text/… or of another GLUE task, or a folder with its model", place=())
    length: int = setting(128, "maximum number of tokens; longer texts are truncated", least=3, at_eval=True)
