"""A sentence as a scene: its words and parts of words."""

from __future__ import annotations

from typing import Any

import torch

from chimera_lab.show.loading import Trained
from chimera_lab.show.view import Scene
from chimera_lab.training.files import reading

_GUESSES = 3


def scene(trained: Trained, given: str | None) -> tuple[Scene, dict[str, Any]]:
    """A sentence, in which ``[MASK]`` stands for words to guess, or a masked test sample by number."""
    from transformers import AutoTokenizer

    with reading(trained.folder, "save its tokenizer again"):
        tokenizer: Any = AutoTokenizer.from_pretrained(trained.folder)
    if given is not None and not given.strip():
        raise ValueError("the sentence is empty: give some words, or the number of a test sample")
    if given is not None and given != given.encode(errors="replace").decode():
        raise ValueError(f"the sentence {given!r} is not UTF-8 text: type it in a terminal that is set to UTF-8")
    sample = trained.sample(given, "a sentence")
    ids = tokenizer(given, return_tensors="pt")["input_ids"] if sample is None else sample["input_ids"][None]
    tokens: list[str] = tokenizer.convert_ids_to_tokens(ids[0])
    masked = (ids[0] == tokenizer.mask_token_id).nonzero().flatten().tolist()
    texts = [token.removeprefix("##") for token in tokens]
    return Scene(
        "words",
        f"test sample {given or 0}" if sample is not None else "a sentence",
        "word",
        texts,
        {"texts": texts, "joined": [token.startswith("##") for token in tokens]},
        focus=masked[0] if masked else len(tokens) // 2,
        verdict=_guesses(trained.model, ids, masked, tokenizer),
    ), {"input_ids": ids}


def _guesses(model: Any, ids: torch.Tensor, masked: list[int], tokenizer: Any) -> str:
    """What the model would put in place of the first masked words."""
    from chimera_ssm.models import ChimeraForMaskedLM

    if not masked or not isinstance(model, ChimeraForMaskedLM):
        return ""
    with torch.no_grad():
        chances = model(input_ids=ids).logits[0, masked[:_GUESSES]].softmax(-1).topk(_GUESSES)
    said = [
        " or ".join(f"{tokenizer.convert_ids_to_tokens(int(i))} ({float(p):.0%})" for p, i in zip(*row, strict=True))
        for row in zip(*chances, strict=True)
    ]
    return "guesses: " + "; ".join(said)
