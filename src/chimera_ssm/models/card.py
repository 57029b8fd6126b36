"""Model cards: README.md of saved models."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chimera_ssm.version import __version__

_PIPELINES = {
    "ChimeraForCausalLM": "text-generation",
    "ChimeraForMaskedLM": "fill-mask",
    "ChimeraForSequenceClassification": "text-classification",
    "ChimeraForTokenClassification": "token-classification",
    "ChimeraForQuestionAnswering": "question-answering",
    "ChimeraForImageClassification": "image-classification",
}


def write_card(model: Any, folder: str | os.PathLike, **facts: Any) -> None:
    """Write README.md into the folder of a saved model, in place of one that is there; see `card`."""
    Path(folder, "README.md").write_text(card(model, **facts), encoding="utf-8")


def card(
    model: Any,
    data: str | None = None,
    metrics: Mapping[str, float] | None = None,
    command: str | None = None,
    settings: Mapping[str, Any] | None = None,
    preset: str | None = None,
) -> str:
    """A model card: what the model is, how it is loaded, and, as far as known, its data and metrics.

    Args:
        model: a model of this package.
        data: what it was trained on.
        metrics: on held-out data.
        command: that trained it.
        settings: of the training, if no command says them all.
        preset: name by which `create_model` loads it.
    """
    name, task = type(model).__name__, _PIPELINES.get(type(model).__name__)
    count = sum(p.numel() for p in model.parameters())
    head = ["library_name: transformers", *([f"pipeline_tag: {task}"] if task else []), "tags:", "- chimera"]
    source = (
        f'{name}.from_pretrained("this folder")' if preset is None else f'create_model("{preset}", pretrained=True)'
    )
    load = ["import chimera_ssm", "", f"model = chimera_ssm.{source}"]
    pipe = ["from transformers import pipeline", "", "import chimera_ssm  # registers the models", ""]
    pipe += [f'pipe = pipeline("{task}", "this folder")']
    lines = ["---", *head, "---", "", f"# {preset or name}", ""]
    lines += [f"A state space model (`{name}`) of {count:,} parameters, saved by chimera-ssm {__version__}.", ""]
    lines += ["## Use", "", "```python", *load, "```", ""]
    if task is not None:
        lines += ["Or as a pipeline:", "", "```python", *pipe, "```", ""]
    lines += ["It needs `chimera-ssm` with the extra `hf`.", ""]
    lines += ["## Data", "", textwrap.fill(data or "Not recorded.", 120), ""]
    if command is not None:
        lines += ["Trained by:", "", f"    {command}", ""]
    if settings:
        lines += ["Settings of the training; those that are not named have their defaults:", ""]
        lines += [*(f"    {key}: {value}" for key, value in settings.items()), ""]
    lines += ["## Metrics", ""]
    if metrics:
        lines += ["| metric | value |", "|---|---|", *(f"| {key} | {value:.4g} |" for key, value in metrics.items())]
    else:
        lines += ["Not recorded."]
    return "\n".join(lines) + "\n"
