"""The configuration of causal language models."""

from __future__ import annotations

from typing import ClassVar

from chimera_ssm.models.configuration import ChimeraConfig
from chimera_ssm.nn.mixer_checks import check_limits


class ChimeraCausalConfig(ChimeraConfig):
    """Sizes and choices of a causal language model, on a directed line; the defaults are Mamba-2's parameterisation.

    Args:
        vocab_size: number of tokens in the vocabulary.
        learn_decay: whether each head learns its decay, −A of Mamba-2; otherwise it is 1.
        conv_width: tokens in the window of the convolution.
        dt_limit: smallest and largest step, to which steps are clamped; not at all if ``None``.
        use_bias: whether the projections of a mixer have biases.
        embedding_norm: whether a norm follows the embedding.
        rms_norm_eps: added to the mean square in all norms.
        residual_in_fp32: whether features between blocks stay in float32 if the weights are in half precision.
        use_cache: whether to return the states from which a text is continued.
        tie_word_embeddings: whether tokens are predicted with the weights that embed them.
        pad_token_id: token that fills up a batch; ``attention_mask`` says where.
        bos_token_id: token at the beginning of a text.
        eos_token_id: token, or tokens, at which generation ends.
        kwargs: see `ChimeraConfig`; ``num_heads`` is ``max(1, expand · hidden_size // 64)`` if ``None``.
    """

    model_type = "chimera_causal"
    kind = "causal"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values"]
    _sizes = ("vocab_size", "conv_width")

    num_hidden_layers: int = 24
    state_size: int = 128
    injection: str | None = "step"
    vocab_size: int = 50_280
    learn_decay: bool = True
    conv_width: int = 4
    dt_limit: list[float] | tuple[float, ...] | None = None
    use_bias: bool = False
    embedding_norm: bool = False
    rms_norm_eps: float = 1e-5
    residual_in_fp32: bool = False
    use_cache: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        check_limits(self.dt_limit)
        if not self.rms_norm_eps > 0:
            raise ValueError(f"rms_norm_eps must be above 0, found {self.rms_norm_eps}")
