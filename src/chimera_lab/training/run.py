"""The folder of a run: its contents, and how it is created and opened."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from math import nan
from pathlib import Path
from typing import Any

from chimera_lab.data.files import write_atomically
from chimera_lab.training.files import read_json
from chimera_lab.training.kinds import recipe_class
from chimera_lab.training.lock import LOCK, held, made, make_folder
from chimera_lab.training.recipe import Recipe, RuntimeConfig
from chimera_lab.training.settings import as_dict, from_dict
from chimera_lab.training.task import Task
from chimera_ssm.version import __version__


@dataclass(frozen=True)
class Run:
    """A run: its folder and its settings.

    The folder holds config.yaml, about/, metrics.csv, steps.csv, tensorboard/, checkpoints/, curves.png, model/ and,
    when the run is finished, result.json; if it diverged, diverged.json.
    """

    folder: Path
    name: str
    recipe: Recipe
    runtime: RuntimeConfig

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.folder / "checkpoints"

    @property
    def about(self) -> Path:
        """Metadata of the data when the run began: classes, vocabulary, fingerprint."""
        return self.folder / "about"

    def load_metadata(self, task: Task, own_data: bool = True) -> str:
        """Restore the metadata that a task had when the run began; see `Task.load_metadata`.

        Returns:
            The fingerprint of the run's data.
        """
        path = self.about / "data"
        if not path.is_file():
            raise ValueError(f"{self.folder} is incomplete: {path} is not there; restore it, or train again")
        for file in self.about.glob("*.json"):
            read_json(file, object, _RESTORE)
        try:
            task.load_metadata(self.about, own_data)
        except FileNotFoundError as error:
            raise ValueError(f"{self.folder} is incomplete: {error.filename} is not there; {_RESTORE}") from None
        return path.read_text(encoding="ascii", errors="replace")

    @property
    def model(self) -> Path:
        """The folder of the trained model."""
        return self.folder / "model"

    @property
    def result(self) -> dict[str, Any] | None:
        """The content of result.json if the run is finished; undefined metrics are NaN."""
        return self._summary("result.json", "delete it and continue with chimera train --resume")

    @property
    def divergence(self) -> dict[str, Any] | None:
        """The content of diverged.json if the run diverged: as `result`, without metrics."""
        return self._summary("diverged.json", "delete it and continue with chimera train --resume")

    def _summary(self, name: str, remedy: str) -> dict[str, Any] | None:
        path = self.folder / name
        if not path.exists():
            return None
        found = read_json(path, dict, f"{remedy} {self.folder}")
        metrics = found.get("metrics")
        if not isinstance(metrics, dict):
            raise ValueError(f"{path} is damaged: it has no metrics; {remedy} {self.folder}")
        return found | {"metrics": {key: nan if value is None else value for key, value in metrics.items()}}

    @property
    def exists(self) -> bool:
        """Whether the folder contains a run."""
        return (self.folder / "config.yaml").exists()

    def check_free(self) -> None:
        """Refuse a folder that is not empty: an existing run is never overwritten."""
        if self.exists:
            raise ValueError(
                f"{self.folder} holds a run already: continue it with chimera train --resume {self.folder}, or choose "
                f"another folder with --out"
            )
        if self.folder.exists() and (
            not self.folder.is_dir() or any(path.name not in _TRACES for path in self.folder.iterdir())
        ):
            raise ValueError(f"{self.folder} exists and is not a run; choose another folder with --out")

    def create(self) -> None:
        """Create the folder and its config.yaml."""
        import yaml

        self.check_free()
        values: dict[str, Any] = {"name": self.name, "kind": self.recipe.kind, "version": __version__}
        values |= {"recipe": as_dict(self.recipe), "machine": as_dict(self.runtime)}
        text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
        make_folder(self.folder)
        write_atomically(self.folder / "config.yaml", lambda file: file.write(text.encode()))


def open_run(folder: Path) -> Run:
    """The run in a folder."""
    import yaml

    path = folder / "config.yaml"
    if not path.is_file():
        raise ValueError(f"{folder} is not a run: it has no config.yaml; runs are made by chimera train")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError) as error:
        words = " ".join(str(error).split())
        raise ValueError(f"{path} cannot be read: it is not YAML ({words}); {_RESTORE}") from error
    try:
        name, kind, recipe, runtime = (_entry(values, *entry) for entry in _ENTRIES.items())
        return Run(folder, name, from_dict(recipe_class(kind), recipe), from_dict(RuntimeConfig, runtime))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}; {_RESTORE}") from error


#: Files that a process killed before its run began may leave behind.
_TRACES = LOCK, "config.yaml.part"

_ENTRIES = {"name": str, "kind": str, "recipe": dict, "machine": dict}
_RESTORE = "restore it, or train again"


def _entry(values: Any, name: str, kind: type) -> Any:
    """An entry of config.yaml, checked for its type."""
    value = values.get(name) if isinstance(values, dict) else None
    if not isinstance(value, kind):
        raise ValueError(f"{name} is missing or not a {kind.__name__}")
    return value


@contextmanager
def new_folder(name: str) -> Generator[Path]:
    """``runs/<recipe>-<time>``, created and locked for this process, and removed if it stays empty."""
    stem = f"{name.replace('/', '-')}-{time.strftime('%Y%m%d-%H%M%S')}"
    with ExitStack() as stack:
        for k in count():
            path = Path("runs") / (f"{stem}-{k}" if k else stem)
            with suppress(FileExistsError):
                stack.enter_context(made(path, exist_ok=False))
                break
        yield stack.enter_context(held(path))
