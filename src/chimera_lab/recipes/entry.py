"""An entry in the list of recipes."""

from __future__ import annotations

from dataclasses import dataclass

from chimera_lab.training.recipe import Recipe


@dataclass(frozen=True)
class Entry:
    """A recipe at the paper's scale, at a laptop's, or both.

    Args:
        doc: one line for `chimera list`.
        paper: as in the paper, on GPUs.
        laptop: minutes on two cores.
    """

    doc: str
    paper: Recipe | None = None
    laptop: Recipe | None = None

    @property
    def scales(self) -> dict[str, Recipe]:
        """The scales at which the recipe exists."""
        return {name: recipe for name in ("paper", "laptop") if (recipe := getattr(self, name)) is not None}
