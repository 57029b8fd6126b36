"""Predictions for texts: classes, masked words, or the words that follow."""

from __future__ import annotations

from typing import Any

import torch

from chimera_lab.predict.labels import class_names, columns
from chimera_lab.show.loading import Trained
from chimera_lab.training.files import reading
from chimera_ssm.models import ChimeraForCausalLM, ChimeraForMaskedLM, ChimeraForSequenceClassification

#: The number of tokens by which a causal language model continues a text.
_NEW_TOKENS = 20


@torch.inference_mode()
def predict(trained: Trained, texts: list[str], batch_size: int) -> list[dict[str, Any]]:
    """A row for each text, or for each masked word."""
    from transformers import AutoTokenizer

    with reading(trained.folder, "save its tokenizer again"):
        tokenizer: Any = AutoTokenizer.from_pretrained(trained.folder)
    run = _RUNS.get(type(trained.model))
    if run is None:
        raise ValueError(
            f"{trained.folder} holds a {type(trained.model).__name__}; predictions of texts are classes, masked words "
            "or the words that follow"
        )
    rows: list[dict[str, Any]] = []
    for start in range(0, len(texts), batch_size):
        batch = texts[start : start + batch_size]
        for k, text in enumerate(batch):
            if not text.strip():
                raise ValueError(f"input {start + k + 1} is empty: remove it, or give some words")
            if run is _words and tokenizer.mask_token not in text:
                raise ValueError(
                    f"input {start + k + 1} has no {tokenizer.mask_token}: this model predicts masked words; mark them "
                    "so, or predict with a model that was trained on classes"
                )
        rows += run(trained.model, tokenizer, batch)
    return rows


def _classes(model: Any, tokenizer: Any, texts: list[str]) -> list[dict[str, Any]]:
    pairs = [text.split("\t", 1) for text in texts]
    second = [pair[1] for pair in pairs] if all(len(pair) == 2 for pair in pairs) else None
    if second is None and any(len(pair) == 2 for pair in pairs):
        raise ValueError("either every text is a pair of sentences with a tab in between, or none is")
    inputs = tokenizer([pair[0] for pair in pairs], second, padding=True, return_tensors="pt")
    logits = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
    problem = model.config.problem_type or ("regression" if logits.shape[1] == 1 else "single_label_classification")
    return [
        {"input": text, **values}
        for text, values in zip(texts, columns(logits, problem, class_names(model.config)), strict=True)
    ]


def _words(model: Any, tokenizer: Any, texts: list[str]) -> list[dict[str, Any]]:
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    probabilities, best = model(input_ids=ids, attention_mask=mask).logits.float().softmax(-1).max(-1)
    masked = ids == tokenizer.mask_token_id
    filled = tokenizer.batch_decode(torch.where(masked, best, ids), skip_special_tokens=True)
    return [
        {
            "input": text,
            "word": tokenizer.convert_ids_to_tokens(int(best[row, place])),
            "probability": float(probabilities[row, place]),
            "filled": filled[row],
        }
        for row, text in enumerate(texts)
        for place in masked[row].nonzero().flatten().tolist()
    ]


def _continuations(model: Any, tokenizer: Any, texts: list[str]) -> list[dict[str, Any]]:
    inputs = tokenizer(texts, padding=True, padding_side="left", add_special_tokens=False, return_tensors="pt")
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    options = {"max_new_tokens": _NEW_TOKENS, "do_sample": False, "pad_token_id": tokenizer.pad_token_id}
    found = model.generate(ids, attention_mask=mask, **options)
    words = tokenizer.batch_decode(found[:, ids.shape[1] :], skip_special_tokens=True)
    return [{"input": text, "continuation": new} for text, new in zip(texts, words, strict=True)]


_RUNS = {
    ChimeraForSequenceClassification: _classes,
    ChimeraForMaskedLM: _words,
    ChimeraForCausalLM: _continuations,
}
