"""The settings of a text corpus, and of masked language modelling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from chimera_lab.training.model_settings import model_settings
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.settings import setting
from chimera_ssm.models.text.configuration import ChimeraTextConfig

_Model: Any = model_settings(
    ChimeraTextConfig,
    exclude=(
        "mixer", "vocab_size", "groups", "max_length", "classifier_dropout", "initializer_range",
        "tie_word_embeddings", "pad_token_id",
    ),
    hidden_size=128, num_hidden_layers=4, state_size=32,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CorpusRecipe(Recipe):
    """Text, as blocks of tokens."""

    text_column: str = setting("text", "column of the text in jsonl and parquet files", at_eval=True)
    max_tokens: int | None = setting(None, "number of tokens to use; required for streams", least=1)
    tokenizer: str = setting(
        "auto", "a vocab.txt, a tokenizer's folder or name; auto: a new WordPiece vocabulary", place=("auto",)
    )
    vocab_size: int = setting(4096, "size of a new vocabulary, which contains at least all letters", least=100)
    length: int = setting(128, "tokens per sample", least=3, at_eval=True)


@dataclass(frozen=True, kw_only=True)
class TextRecipe(_Model, CorpusRecipe):
    """Masked words of text, as a line of tokens."""

    kind: ClassVar[str] = "text"

    if TYPE_CHECKING:  # type checkers do not see the fields of _Model

        def __init__(self, **settings: Any) -> None: ...

    data: str = setting(
        "pydoc", "pydoc, wikitext-2, c4, recall:8, copying:16, listops, or a file or folder of text, jsonl or parquet",
        at_eval=True, place=("pydoc", "wikitext-2", "c4"),
    )  # fmt: skip
    mask: float = setting(0.3, "fraction of words masked in training", above=0, most=1)
    eval_mask: float = setting(0.15, "fraction of words masked in evaluation", above=0, most=1, at_eval=True)

    mixer: Literal["chimera", "mlp", "m2", "bert", "bert_rotary", "bert_conv", "fnet"] = setting(
        "chimera", "Chimera or a baseline; bert_conv: BERT with Chimera's convolution"
    )
    positions: int | None = setting(None, "maximum length of baselines with positions; none: length", least=1)
    dropout: float = setting(0.1, "dropout of BERT and FNet; the other models have none", least=0, below=1)
