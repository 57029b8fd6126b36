"""Masked language modelling as a task."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn import functional as F

from chimera_lab.baselines import match_text_parameters, text_model
from chimera_lab.data.samples import Samples
from chimera_lab.data.sequences import SequenceData, is_generated, load_sequences
from chimera_lab.data.text import TextData, load_text
from chimera_lab.training.files import require
from chimera_lab.training.perplexity import Perplexity
from chimera_lab.training.saving import max_tokens, save_tokenizer, save_with_tokenizer
from chimera_lab.training.task import StepOutput, Task
from chimera_lab.training.text_recipe import TextRecipe

if TYPE_CHECKING:
    from torchmetrics import Metric


class TextTask(Task):
    """Masked words: cross-entropy, accuracy and perplexity.

    Args:
        recipe: data, masking and model.
    """

    monitor = "accuracy"

    def __init__(self, recipe: TextRecipe):
        self.recipe, self.own_data = recipe, True

    @cached_property
    def text(self) -> TextData | SequenceData:
        """Blocks of tokens and the tokenizer, loaded when first used."""
        r = self.recipe
        if is_generated(r.data):
            return load_sequences(r.data, r.length)
        return load_text(r.data, r.length, r.tokenizer, r.vocab_size, r.text_column, r.max_tokens)

    def train_samples(self) -> Samples:
        return self.text.masked(self.text.train, self.recipe.mask)

    def plain_train_samples(self) -> Samples:
        return self.text.masked(self.text.train, self.recipe.eval_mask)

    def test_samples(self) -> Samples:
        blocks = self.text.test if self.own_data else self.text.unseen
        return self.text.masked(blocks, self.recipe.eval_mask)

    def parts(self) -> tuple[Samples, Samples]:
        return self.text.train, self.text.test

    def save_metadata(self, model: nn.Module, folder: Path) -> None:
        """The tokenizer, which would change if the text from which it was made changed."""
        save_tokenizer(self.text.tokenizer, folder)

    def load_metadata(self, folder: Path, own_data: bool = True) -> None:
        require(folder, "tokenizer.json", "tokenizer_config.json")
        self.recipe, self.own_data = replace(self.recipe, tokenizer=str(folder)), own_data
        if not own_data:
            self.recipe = replace(self.recipe, max_tokens=None)

    def build_model(self, recipe: TextRecipe) -> nn.Module:
        return text_model(**self.model_arguments(recipe))

    def match_parameters(self, target: int) -> TextRecipe:
        """Positions beyond ``length`` are never trained and do not count."""
        arguments = self.model_arguments(replace(self.recipe, positions=None))
        matched = match_text_parameters(target=target, **arguments)
        return replace(self.recipe, hidden_size=matched["hidden_size"])

    def model_arguments(self, recipe: TextRecipe) -> dict[str, Any]:
        """Arguments of `text_model`."""
        tokenizer: Any = self.text.tokenizer
        return {
            **recipe.model_values(),
            "mixer": recipe.mixer,
            "dropout": recipe.dropout,
            "max_length": recipe.positions or recipe.length,
            "vocab_size": len(tokenizer),
            "pad_token_id": tokenizer.pad_token_id,
        }

    def numbers_per_sample(self) -> int:
        return self.recipe.length * self.recipe.hidden_size

    def step(self, model: nn.Module, batch: dict[str, Tensor]) -> StepOutput:
        """Decode the masked words only: with a large vocabulary, decoding all words would double the work."""
        ids, labels = batch["input_ids"], batch["labels"]
        parts: Any = model
        limit = max_tokens(parts)
        if limit is not None and ids.shape[1] > limit:
            raise ValueError(f"the model has {limit} positions, found {ids.shape[1]} tokens: shorten length")
        places = batch["places"]
        targets = labels.flatten()[places]
        logits = self.scores(parts, ids, places)
        count = len(targets)
        loss = F.cross_entropy(logits, targets, reduction="sum") / max(1, count)
        right = (logits.detach().argmax(-1) == targets).sum() / max(1, count)
        return StepOutput(loss, count, logits.detach(), targets, {"accuracy": right})

    def scores(self, model: Any, ids: Tensor, places: Tensor) -> Tensor:
        """Scores ``[n, vocab_size]`` in float32 at some places among all of ``ids [B, T]``."""
        return model.cls(model.base_model(input_ids=ids).last_hidden_state.flatten(0, 1)[places]).float()

    def metrics(self) -> dict[str, Metric]:
        from torchmetrics.classification import MulticlassAccuracy

        words = len(self.text.tokenizer)
        accuracy = MulticlassAccuracy(words, average="micro", validate_args=False)
        return {"accuracy": accuracy, "perplexity": Perplexity()}

    def save(self, model: nn.Module, folder: Path) -> None:
        """In the format of `transformers`, with the tokenizer."""
        save_with_tokenizer(model, self.text.tokenizer, folder)
