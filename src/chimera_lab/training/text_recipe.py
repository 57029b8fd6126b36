"""The settings of masked language modelling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from chimera_lab.training.recipe import Recipe
from chimera_lab.training.settings import setting

if TYPE_CHECKING:
    from chimera_lab.training.text_task import TextTask


@dataclass(frozen=True, kw_only=True)
class TextRecipe(Recipe):
    """Masked words of text, as a line of tokens."""

    kind: ClassVar[str] = "text"

    data: str = setting(
        "pydoc", "pydoc, wikitext-2, c4, or a file or folder of text, jsonl or parquet files", at_eval=True,
        place=("pydoc", "wikitext-2", "c4"),
    )  # fmt: skip
    text_column: str = setting("text", "where the text is in jsonl and parquet files", at_eval=True)
    max_tokens: int | None = setting(None, "take only this many tokens; needed for streams", least=1)
    tokenizer: str = setting(
        "auto", "a vocab.txt, a tokenizer's folder or name; auto: a new WordPiece vocabulary", place=("auto",)
    )
    vocab_size: int = setting(4096, "words of a new vocabulary, all letters at least", least=100)
    length: int = setting(128, "tokens of a sample", least=3, at_eval=True)
    mask: float = setting(0.3, "part of the words to guess in training", above=0, most=1)
    eval_mask: float = setting(0.15, "part of the words to guess in evaluation", above=0, most=1, at_eval=True)

    mixer: Literal["chimera", "mlp", "m2", "bert", "bert_rotary", "fnet"] = setting("chimera", "what mixes the tokens")
    variant: Literal["dag", "ug"] = setting("dag", "the line forward and backward, or the undirected line")
    injection: Literal["hold", "step", "projected"] | None = setting(None, "β of B̄ = β B; none: hold where it can be")
    conv: bool = setting(True, "whether V, B and C of Chimera go through a local convolution")
    resolvent: Literal["exact", "identity"] = setting("exact", "exact, or L = I for ablations")
    init: Literal["average", "paper"] = setting("average", "initial values: C · B near one, or the paper's")
    hidden_size: int = setting(128, "features of a token", least=1)
    num_hidden_layers: int = setting(4, "blocks", least=1)
    state_size: int = setting(32, "N of Chimera", least=1)
    num_heads: int | None = setting(None, "H of Chimera; none: heads of 64 features", least=1)
    expand: int = setting(2, "inner width of Chimera's blocks, in units of hidden_size", least=1)
    positions: int | None = setting(None, "most tokens that baselines with positions can read; none: length", least=1)
    dropout: float = setting(0.1, "of BERT and FNet, which the others have not", least=0, below=1)
    drop_path: float = setting(
        0.0, "probability of dropping the last block, rising from 0 at the first", least=0, below=1
    )

    def task(self) -> TextTask:
        from chimera_lab.training.text_task import TextTask

        return TextTask(self)

    def with_parameters(self, target: int) -> TextRecipe:
        """Positions beyond ``length`` are never trained, and do not count."""
        from chimera_lab.baselines import match_text_parameters

        sizes = match_text_parameters(target=target, **self.task().sizes(replace(self, positions=None)))
        return replace(self, hidden_size=sizes["hidden_size"])
