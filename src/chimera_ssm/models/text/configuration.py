"""What defines a text model."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedConfig

from chimera_ssm.nn.mixer import INITS

CHOICES = {
    "variant": ("dag", "ug"),
    "mixer": ("chimera", "mlp", "m2"),
    "injection": (None, "hold", "step", "projected"),
    "resolvent": ("exact", "identity"),
    "init": INITS,
}


class ChimeraTextConfig(PreTrainedConfig):
    """Sizes and choices of a text model; the defaults are those of ``chimera_text_base``.

    Args:
        vocab_size: words, or pieces of words.
        hidden_size: features of a token.
        num_hidden_layers: blocks.
        state_size: N, the size of a state.
        num_heads: H, the number of heads; ``max(1, expand · hidden_size // 64)`` if ``None``.
        expand: inner width in units of ``hidden_size``.
        groups: G, groups of heads that share B and C.
        variant: the topology: ``"dag"``, the line forward and the line backward; ``"ug"``, the undirected line.
        injection: β of B̄ = β B: ``"hold"``, ``"step"`` or ``"projected"``, see `chimera_ssm.adjacency.injection`; if
            ``None``, hold where the weights allow it, else step.
        conv: whether V, B and C go through a local convolution.
        resolvent: the matrix L: ``"exact"``, or ``"identity"`` for L = I, for ablations.
        init: initial values, ``"average"`` or ``"paper"``, see `Chimera`; with ``"paper"``, weights have the deviation
            ``initializer_range`` at any width.
        mixer: ``"chimera"``, or a baseline in its place, ``"mlp"`` (MLP-Mixer) or ``"m2"`` (Monarch Mixer).
        max_length: longest text, for the baseline ``"mlp"`` alone: Chimera has none.
        drop_path: probability of dropping the last block in training; rises linearly from the first block, with 0.
        classifier_dropout: of the features that heads for classes and spans see.
        initializer_range: standard deviation of initial weights of embeddings and projections at 768 features; it is
            multiplied by √(768 / hidden_size), so that layers of any width start alike.
        tie_word_embeddings: whether words are predicted with the weights that embed them.
        pad_token_id: the token that fills up a batch; it is ``attention_mask`` that tells where.
        kwargs: what all configurations of `transformers` take, such as ``num_labels`` and ``problem_type``.
    """

    model_type = "chimera_text"

    vocab_size: int = 30_522
    hidden_size: int = 768
    num_hidden_layers: int = 23
    state_size: int = 64
    num_heads: int | None = None
    expand: int = 2
    groups: int = 1
    variant: str = "dag"
    injection: str | None = None
    conv: bool = True
    resolvent: str = "exact"
    init: str = "average"
    mixer: str = "chimera"
    max_length: int = 512
    drop_path: float = 0.0
    classifier_dropout: float = 0.1
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True
    pad_token_id: int | None = 0

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}; found {getattr(self, name)!r}")
        sizes = ["vocab_size", "hidden_size", "num_hidden_layers", "state_size", "expand", "groups", "max_length"]
        for name in [*sizes, *(["num_heads"] if self.num_heads is not None else [])]:
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise ValueError(f"{name} must be an integer of at least 1, found {size!r}")
        for name in ("drop_path", "classifier_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be from 0 to below 1, found {getattr(self, name)}")
