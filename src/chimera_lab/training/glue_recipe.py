"""The settings of fine-tuning on GLUE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from chimera_lab.training.recipe import Recipe
from chimera_lab.training.settings import setting

if TYPE_CHECKING:
    from chimera_lab.training.glue_task import GlueTraining


@dataclass(frozen=True, kw_only=True)
class GlueRecipe(Recipe):
    """Classes and scores of sentences, by a model that was trained on masked words."""

    kind: ClassVar[str] = "glue"

    glue: Literal["cola", "sst2", "mrpc", "qqp", "stsb", "mnli", "qnli", "rte"] = setting("cola", "task of GLUE")
    data: str = setting("glue", "a folder with the official tsv files; glue: through datasets", at_eval=True, place=())
    from_: str = setting(
        "", "a finished run of text/…, or of another task of GLUE; or a folder with its model", place=()
    )
    length: int = setting(128, "longer texts are cut to so many tokens", least=3, at_eval=True)

    def task(self) -> GlueTraining:
        from chimera_lab.training.glue_task import GlueTraining

        return GlueTraining(self)

    def with_parameters(self, target: int) -> GlueRecipe:
        """The same: a model that is trained already has the size it has. It must be the right one."""
        if abs(self.parameters() - target) > 0.03 * target:
            raise ValueError(
                f"the model of {self.from_} has {self.parameters():,} parameters, not {target:,} within 3 %: "
                f"start from one that has"
            )
        return self
