"""The configuration of text models."""

from __future__ import annotations

from chimera_ssm.models.configuration import ChimeraConfig


class ChimeraTextConfig(ChimeraConfig):
    """Sizes and choices of a text model; the defaults are those of ``chimera_text_base``.

    Args:
        vocab_size: number of tokens in the vocabulary.
        variant: the topology: ``"dag"``, a forward and a backward line; ``"ug"``, the undirected line, exactly.
        max_length: maximal number of tokens, for the baseline ``"mlp"`` only: Chimera has no maximum.
        classifier_dropout: dropout before the heads that predict classes.
        tie_word_embeddings: whether tokens are predicted with the weights that embed them.
        pad_token_id: token that fills up a batch; ``attention_mask`` says where.
        kwargs: see `ChimeraConfig`; ``num_heads`` is ``max(1, expand · hidden_size // 64)`` if ``None``.
    """

    model_type = "chimera_text"
    kind = "text"
    _choices = {"variant": ("dag", "ug")}  # noqa: RUF012
    _sizes = ("vocab_size", "max_length")
    _probabilities = ("classifier_dropout",)

    vocab_size: int = 30_522
    variant: str = "dag"
    max_length: int = 512
    classifier_dropout: float = 0.1
    tie_word_embeddings: bool = True
    pad_token_id: int | None = 0
