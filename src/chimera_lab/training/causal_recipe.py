"""The settings of causal language modelling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from chimera_lab.training.model_settings import model_settings
from chimera_lab.training.settings import setting
from chimera_lab.training.text_recipe import CorpusRecipe
from chimera_ssm.models.text.causal_configuration import ChimeraCausalConfig

_Model: Any = model_settings(
    ChimeraCausalConfig,
    exclude=(
        "mixer", "vocab_size", "groups", "initializer_range", "dt_limit", "use_bias", "rms_norm_eps",
        "residual_in_fp32", "use_cache", "tie_word_embeddings", "pad_token_id", "bos_token_id", "eos_token_id",
    ),
    hidden_size=128, num_hidden_layers=4, state_size=32,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CausalRecipe(_Model, CorpusRecipe):
    """The next word of text, as a directed line of tokens."""

    kind: ClassVar[str] = "causal"

    if TYPE_CHECKING:  # type checkers do not see the fields of _Model

        def __init__(self, **settings: Any) -> None: ...

    data: str = setting(
        "pydoc", "pydoc, wikitext-2, c4, or a file or folder of text, jsonl or parquet",
        at_eval=True, place=("pydoc", "wikitext-2", "c4"),
    )  # fmt: skip
    mixer: Literal["chimera", "mamba2", "gpt2"] = setting("chimera", "Chimera, or a model of transformers")
    positions: int | None = setting(None, "maximum length of GPT-2; none: length", least=1)
    dropout: float = setting(0.1, "dropout of GPT-2; the other models have none", least=0, below=1)
