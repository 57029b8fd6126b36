"""The cache of a causal language model: the states of its mixers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import Cache

from chimera_ssm.nn import MixerState


class ChimeraCache(Cache):
    """The states of all layers after the tokens so far; its size does not depend on their number.

    A model that is given a cache continues from it and updates it.

    Attributes:
        states: the state of each layer; empty before the first token.
        length: number of tokens so far, padding included.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.states: list[MixerState] = []
        self.length = 0

    def __len__(self) -> int:
        return len(self.states)

    def __repr__(self) -> str:
        return f"ChimeraCache({self.length} tokens, {len(self.states)} layers)"

    def __deepcopy__(self, memo: dict[int, Any]) -> ChimeraCache:
        """A copy through which gradients flow to the same tokens; tensors with a history have no other copy."""
        copy = ChimeraCache()
        copy.append([state.map(torch.clone) for state in self.states], self.length)
        return copy

    def append(self, states: list[MixerState], length: int) -> None:
        """Replace the states by those ``length`` tokens later."""
        self.states, self.length = states, self.length + length

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Number of tokens so far."""
        return self.length

    def get_max_length(self, layer_idx: int | None = None) -> int:
        """−1: there is no maximum."""
        return -1

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        """Length and offset of a mask over all tokens."""
        return self.length + query_length, 0

    def reset(self) -> None:
        """Forget all tokens."""
        self.states, self.length = [], 0

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Continue the texts ``beam_idx`` of a beam search."""
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Continue the texts ``indices`` of the batch."""
        self.states = [state.select(indices) for state in self.states]

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Continue each text ``repeats`` times."""
        if self.states:
            rows = torch.arange(self.batch_size, device=self.states[0].hidden.device)
            self.batch_select_indices(rows.repeat_interleave(repeats))

    def crop(self, tokens_to_remove: int) -> None:
        """Refused: a state does not contain the states before it."""
        raise ValueError("tokens cannot be removed from a state: keep a copy.deepcopy of the cache to return to it")

    @property
    def batch_size(self) -> int:
        """Number of texts, −1 before the first token."""
        return len(self.states[0].hidden) if self.states else -1


def check_cache(cache: Any, num_layers: int, num_texts: int) -> None:
    """Raise a ValueError unless a cache fits a model and a batch."""
    if not isinstance(cache, ChimeraCache):
        raise ValueError(f"past_key_values must be a ChimeraCache, found {type(cache).__name__}")
    if cache.states and (len(cache), cache.batch_size) != (num_layers, num_texts):
        raise ValueError(
            f"the cache has states of {len(cache)} layers and {cache.batch_size} texts, and the model {num_layers} "
            f"layers and {num_texts} texts: start with a new ChimeraCache()"
        )
