"""Masked language modelling as the loop sees it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor, nn
from torch.nn import functional as F

from chimera_lab.data.samples import Samples
from chimera_lab.data.text import IGNORED, Masked, TextData, load_text
from chimera_lab.training.files import require
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.task import Outcome, Task
from chimera_lab.training.text_recipe import TextRecipe

if TYPE_CHECKING:
    from torchmetrics import Metric

SIZES = (
    "variant", "injection", "conv", "resolvent", "init", "hidden_size", "num_hidden_layers", "state_size", "num_heads",
    "expand", "dropout", "drop_path",
)  # fmt: skip


class TextTask(Task):
    """Masked words: cross-entropy, accuracy and perplexity.

    Args:
        recipe: data, masking and model.
    """

    monitor = "accuracy"

    def __init__(self, recipe: TextRecipe):
        self.recipe, self.own_data = recipe, True

    @cached_property
    def text(self) -> TextData:
        """Blocks of tokens and the tokenizer, made when first used."""
        import chimera_lab.baselines  # noqa: F401  (registers the classes by which tokenizers are found)

        r = self.recipe
        return load_text(r.data, r.length, r.tokenizer, r.vocab_size, r.text_column, r.max_tokens)

    def train_samples(self) -> Masked:
        return Masked(self.text.train, self.text.tokenizer, self.recipe.mask)

    def plain_train_samples(self) -> Masked:
        return Masked(self.text.train, self.text.tokenizer, self.recipe.eval_mask)

    def test_samples(self) -> Masked:
        blocks = self.text.test if self.own_data else self.text.unseen
        return Masked(blocks, self.text.tokenizer, self.recipe.eval_mask)

    def parts(self) -> tuple[Samples, Samples]:
        return self.text.train, self.text.test

    def remember(self, model: nn.Module, folder: Path) -> None:
        """The tokenizer: one made for the text would be another if the text were."""
        save_tokenizer(self.text.tokenizer, folder)

    def recall(self, folder: Path, own_data: bool = True) -> None:
        require(folder, "tokenizer.json", "tokenizer_config.json")
        self.recipe, self.own_data = replace(self.recipe, tokenizer=str(folder)), own_data
        if not own_data:
            self.recipe = replace(self.recipe, max_tokens=None)

    def build_model(self, recipe: Recipe) -> nn.Module:
        from chimera_lab.baselines import text_model

        return text_model(**self.sizes(cast(TextRecipe, recipe)))

    def sizes(self, recipe: TextRecipe) -> dict[str, Any]:
        """Arguments of `chimera_lab.baselines.text_model`."""
        tokenizer: Any = self.text.tokenizer
        return {
            **{name: getattr(recipe, name) for name in ("mixer", *SIZES)},
            "max_length": recipe.positions or recipe.length,
            "vocab_size": len(tokenizer),
            "pad_token_id": tokenizer.pad_token_id,
        }

    def numbers_per_sample(self) -> int:
        return self.recipe.length * self.recipe.hidden_size

    def outcome(self, model: nn.Module, batch: dict[str, Tensor]) -> Outcome:
        """Only masked words are looked at, so only they are decoded: with many words that is half of the work."""
        ids, labels = batch["input_ids"], batch["labels"]
        parts: Any = model
        most = most_tokens(parts)
        if most is not None and ids.shape[1] > most:
            raise ValueError(f"the model has {most} positions, found {ids.shape[1]} tokens: shorten length")
        asked = labels != IGNORED
        targets = labels[asked]
        logits = parts.cls(parts.base_model(input_ids=ids).last_hidden_state[asked]).float()
        count = len(targets)
        loss = F.cross_entropy(logits, targets, reduction="sum") / max(1, count)
        right = (logits.detach().argmax(-1) == targets).sum() / max(1, count)
        return Outcome(loss, count, logits.detach(), targets, {"accuracy": right})

    def metrics(self) -> dict[str, Metric]:
        from torchmetrics.classification import MulticlassAccuracy

        from chimera_lab.training.perplexity import Perplexity

        words = len(self.text.tokenizer)
        accuracy = MulticlassAccuracy(words, average="micro", validate_args=False)
        return {"accuracy": accuracy, "perplexity": Perplexity()}

    def save(self, model: nn.Module, folder: Path) -> None:
        """In the form of `transformers`, with the tokenizer."""
        save_with_tokenizer(model, self.text.tokenizer, folder)


def save_with_tokenizer(model: nn.Module, tokenizer: Any, folder: Path) -> None:
    """In the form of `transformers`, with a tokenizer that gives what the model takes."""
    from transformers.utils import logging

    saved: Any = model
    logging.disable_progress_bar()
    saved.save_pretrained(folder)
    if not hasattr(saved.config, "type_vocab_size"):  # what a tokenizer remembers is what it was made with
        tokenizer.model_input_names = tokenizer.init_kwargs["model_input_names"] = ["input_ids", "attention_mask"]
    if (most := most_tokens(saved)) is not None:
        tokenizer.model_max_length = tokenizer.init_kwargs["model_max_length"] = most
    save_tokenizer(tokenizer, folder)


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write the same files whether the tokenizer was made now or read from a folder, and whatever it was used for."""
    tokenizer.backend_tokenizer.no_truncation()  # set by the last call, and again by the next
    tokenizer.backend_tokenizer.no_padding()
    for name in ("is_local", "local_files_only"):  # how it was read, which transformers would write
        tokenizer.init_kwargs.pop(name, None)
    tokenizer.save_pretrained(folder)


def most_tokens(model: Any) -> int | None:
    """The longest text that a model with positions, or an MLP-Mixer, can read; ``None`` for others, which read any."""
    if getattr(model.config, "mixer", None) == "mlp":
        return model.config.max_length
    return getattr(model.config, "max_position_embeddings", None)
