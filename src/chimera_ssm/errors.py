"""The library's errors. All are ``ValueError``: what was found, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class TopologyError(ValueError):
    """A graph that is malformed, or of a kind that the operation asked for cannot treat."""


_EXTRA_OF = {
    **dict.fromkeys(("torch_geometric", "rdkit", "ogb", "skimage", "tabulate"), "graph"),
    **dict.fromkeys(("transformers", "tokenizers", "datasets", "safetensors"), "hf"),
    **dict.fromkeys(("lightning", "filelock", "torchmetrics", "tensorboard", "rich", "matplotlib", "yaml"), "train"),
    **dict.fromkeys(("PIL", "sklearn", "scipy", "kornia"), "image"),
}


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """One line that says which extra brings a package that is missing; ``None`` if no extra does."""
    package = (error.name or "").partition(".")[0]
    return f'{package} is missing: pip install "chimera-ssm[{_EXTRA_OF[package]}]"' if package in _EXTRA_OF else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest known name as a question, or all known names: ``did you mean 'lr'?``, ``there are: lr, seed``."""
    known = list(known)
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """The message for a name that does not exist: ``unknown setting 'lrr', did you mean 'lr'?``."""
    hint = did_you_mean(name, known)
    return f"unknown {what} {name!r}{',' if hint.endswith('?') else ';'} {hint}"
