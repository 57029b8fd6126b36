"""A sentence as a scene, whose nodes are the tokens."""

from __future__ import annotations

from typing import Any

import torch

from chimera_lab.show.loading import Trained
from chimera_lab.show.view import Scene
from chimera_lab.training.files import reading
from chimera_ssm.models import ChimeraForMaskedLM

_SHOWN = 3


def scene(trained: Trained, given: str | None) -> tuple[Scene, dict[str, Any]]:
    """The scene and the model inputs of a sentence, in which ``[MASK]`` marks words to predict, or of a test sample."""
    from transformers import AutoTokenizer

    with reading(trained.folder, "save its tokenizer again"):
        tokenizer: Any = AutoTokenizer.from_pretrained(trained.folder)
    if given is not None and not given.strip():
        raise ValueError("the sentence is empty: give some words, or the number of a test sample")
    if given is not None and given != given.encode(errors="replace").decode():
        raise ValueError(f"the sentence {given!r} is not UTF-8 text: use a terminal that is set to UTF-8")
    sample = trained.sample(given, "a sentence")
    ids = tokenizer(given, return_tensors="pt")["input_ids"] if sample is None else sample["input_ids"][None]
    tokens: list[str] = tokenizer.convert_ids_to_tokens(ids[0])
    masked = (ids[0] == tokenizer.mask_token_id).nonzero().flatten().tolist()
    texts = [token.removeprefix("##") for token in tokens]
    return Scene(
        "words",
        f"test sample {given or 0}" if sample is not None else "sentence",
        "word",
        texts,
        {"texts": texts, "joined": [token.startswith("##") for token in tokens]},
        focus=masked[0] if masked else len(tokens) // 2,
        prediction=_predictions(trained.model, ids, masked, tokenizer),
    ), {"input_ids": ids}


def _predictions(model: Any, ids: torch.Tensor, masked: list[int], tokenizer: Any) -> str:
    """The most probable words for the first masked positions."""
    if not masked or not isinstance(model, ChimeraForMaskedLM):
        return ""
    with torch.no_grad():
        probabilities = model(input_ids=ids).logits[0, masked[:_SHOWN]].softmax(-1).topk(_SHOWN)
    predictions = [
        " or ".join(f"{tokenizer.convert_ids_to_tokens(int(i))} ({float(p):.0%})" for p, i in zip(*row, strict=True))
        for row in zip(*probabilities, strict=True)
    ]
    return "; ".join(f"[MASK] predicted as {words}" for words in predictions)
