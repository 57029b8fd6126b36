"""The folder of a run: what is in it, and which folder is one."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chimera_ssm.training.recipe import Machine, Recipe, recipe_class
from chimera_ssm.training.settings import as_dict, from_dict
from chimera_ssm.version import __version__

if TYPE_CHECKING:
    from chimera_ssm.training.task import Task


@dataclass(frozen=True)
class Run:
    """A run: its folder and its settings.

    The folder holds config.yaml, about/, metrics.csv, steps.csv, tensorboard/, checkpoints/, curves.png, model/ and,
    when the run is finished, result.json.
    """

    folder: Path
    name: str
    recipe: Recipe
    machine: Machine

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints are."""
        return self.folder / "checkpoints"

    @property
    def about(self) -> Path:
        """What was known of the data when the run began: classes, vocabulary, what tells them from others."""
        return self.folder / "about"

    def recall(self, task: Task, own_data: bool = True) -> str:
        """Make a task what it was when the run began; see `Task.recall`.

        Returns:
            What told the run's data from others.
        """
        path = self.about / "data"
        if not path.is_file():
            raise ValueError(f"{self.folder} is incomplete: {path} is not there; restore it, or train again")
        task.recall(self.about, own_data)
        return path.read_text(encoding="utf-8")

    @property
    def model(self) -> Path:
        """The trained model, in the form its users load."""
        return self.folder / "model"

    @property
    def result(self) -> dict[str, Any] | None:
        """The final figures, if the run is finished."""
        path = self.folder / "result.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    @property
    def exists(self) -> bool:
        """Whether the folder is there already."""
        return (self.folder / "config.yaml").exists()

    def check_free(self) -> None:
        """Refuse a folder with something in it: an existing run is never written into."""
        if self.exists:
            raise ValueError(
                f"{self.folder} holds a run already: continue it with chimera train --resume {self.folder}, or choose "
                f"another folder with --out"
            )
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise ValueError(f"{self.folder} exists and is not a run; choose another folder with --out")

    def create(self) -> None:
        """Make the folder, with its config.yaml."""
        import yaml

        from chimera_ssm.training.checkpoints import write_durably

        self.check_free()
        try:
            self.checkpoints.mkdir(parents=True)
        except OSError as error:
            raise OSError(
                f"cannot make {self.checkpoints}: {error.strerror}; choose another folder with --out"
            ) from error
        values: dict[str, Any] = {"name": self.name, "kind": self.recipe.kind, "version": __version__}
        values |= {"recipe": as_dict(self.recipe), "machine": as_dict(self.machine)}
        text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
        write_durably(self.folder / "config.yaml", lambda file: file.write(text.encode()))


def open_run(folder: Path) -> Run:
    """The run in a folder."""
    import yaml

    path = folder / "config.yaml"
    if not path.is_file():
        raise ValueError(f"{folder} is not a run: it has no config.yaml; runs are made by chimera train")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        recipe = from_dict(recipe_class(values["kind"]), values["recipe"])
        return Run(folder, values["name"], recipe, from_dict(Machine, values["machine"]))
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error!s}") from error


def new_folder(name: str) -> Path:
    """``runs/<recipe>-<time>``, a folder that does not exist yet."""
    stem = f"{name.replace('/', '-')}-{time.strftime('%Y%m%d-%H%M%S')}"
    tries = (Path("runs") / (stem if k == 0 else f"{stem}-{k}") for k in range(1000))
    return next(path for path in tries if not path.exists())
