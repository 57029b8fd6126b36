"""Saving models and tokenizers in the format of `transformers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn


def save_model(model: nn.Module, folder: Path) -> None:
    """Write a model with `save_pretrained`, without a progress bar."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    saved: Any = model
    saved.save_pretrained(folder)


def save_with_tokenizer(model: nn.Module, tokenizer: Any, folder: Path) -> None:
    """Write a model, and a tokenizer whose output the model accepts."""
    save_model(model, folder)
    saved: Any = model
    # A tokenizer writes init_kwargs, the arguments that it was created with.
    if not hasattr(saved.config, "type_vocab_size"):
        tokenizer.model_input_names = tokenizer.init_kwargs["model_input_names"] = ["input_ids", "attention_mask"]
    if (limit := max_tokens(saved)) is not None:
        tokenizer.model_max_length = tokenizer.init_kwargs["model_max_length"] = limit
    save_tokenizer(tokenizer, folder)


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write a tokenizer; the files do not depend on where it was loaded from, nor on how it was used."""
    tokenizer.backend_tokenizer.no_truncation()  # set by the last call, and again by the next
    tokenizer.backend_tokenizer.no_padding()
    for name in ("is_local", "local_files_only"):  # arguments of from_pretrained, which transformers would write
        tokenizer.init_kwargs.pop(name, None)
    tokenizer.save_pretrained(folder)


def max_tokens(model: Any) -> int | None:
    """The longest text that a model with position embeddings, or an MLP-Mixer, accepts; ``None`` for other models."""
    if getattr(model.config, "mixer", None) == "mlp":
        return model.config.max_length
    return getattr(model.config, "max_position_embeddings", None)
