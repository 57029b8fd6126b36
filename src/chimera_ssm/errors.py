"""The library's errors. All are ``ValueError``: what was found, what was expected, what to do."""

from __future__ import annotations


class TopologyError(ValueError):
    """A graph that is malformed, or of a kind that the operation asked for cannot treat."""


_EXTRA_OF = {
    **dict.fromkeys(("torch_geometric", "rdkit", "ogb", "skimage"), "graph"),
    **dict.fromkeys(("transformers", "tokenizers", "datasets", "safetensors"), "hf"),
    **dict.fromkeys(("lightning", "filelock", "torchmetrics", "tensorboard", "rich", "matplotlib", "yaml"), "train"),
    **dict.fromkeys(("PIL", "sklearn", "scipy", "kornia"), "image"),
}


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """One line that says which extra brings a package that is missing; ``None`` if no extra does."""
    package = (error.name or "").partition(".")[0]
    return f'{package} is missing: pip install "chimera-ssm[{_EXTRA_OF[package]}]"' if package in _EXTRA_OF else None
