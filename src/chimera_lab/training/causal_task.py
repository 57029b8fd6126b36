"""Causal language modelling as a task."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from torch import Tensor, nn

from chimera_lab.baselines import causal_model, match_causal_parameters
from chimera_lab.data.samples import Samples
from chimera_lab.data.text import load_text
from chimera_lab.training.causal_recipe import CausalRecipe
from chimera_lab.training.text_task import TextTask


class CausalTask(TextTask):
    """The next word: cross-entropy, accuracy and perplexity, of words that are not special tokens.

    Args:
        recipe: data and model.
    """

    monitor = "perplexity"
    larger_is_better = False
    recipe: Any

    def __init__(self, recipe: CausalRecipe):
        self.recipe, self.own_data = recipe, True

    @cached_property
    def text(self) -> Any:
        """`TextData`: blocks of tokens and the tokenizer, loaded when first used."""
        r = self.recipe
        return load_text(r.data, r.length, r.tokenizer, r.vocab_size, r.text_column, r.max_tokens)

    def train_samples(self) -> Samples:
        return self.text.next_words(self.text.train)

    def plain_train_samples(self) -> Samples:
        return self.train_samples()

    def test_samples(self) -> Samples:
        return self.text.next_words(self.text.test if self.own_data else self.text.unseen)

    def build_model(self, recipe: CausalRecipe) -> nn.Module:
        return causal_model(**self.model_arguments(recipe))

    def match_parameters(self, target: int) -> CausalRecipe:
        """Positions beyond ``length`` are never trained and do not count."""
        arguments = self.model_arguments(replace(self.recipe, positions=None))
        matched = match_causal_parameters(target=target, **arguments)
        return replace(self.recipe, hidden_size=matched["hidden_size"])

    def scores(self, model: Any, ids: Tensor, places: Tensor) -> Tensor:
        hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        return model.lm_head(hidden.flatten(0, 1)[places]).float()
