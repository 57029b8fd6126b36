"""Text models with heads: masked tokens, classes of texts and of tokens, answers to questions."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from transformers.modeling_outputs import (
    MaskedLMOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple

from chimera_ssm.models.labels import check_labels
from chimera_ssm.models.text.configuration import ChimeraTextConfig
from chimera_ssm.models.text.modeling import ChimeraTextModel, ChimeraTextPreTrainedModel
from chimera_ssm.nn import RMSNorm


class ChimeraMaskedLMHead(nn.Module):
    """Scores of tokens: ``decoder(norm(gelu(dense(x))))``, ``[..., hidden_size]`` → ``[..., vocab_size]``."""

    def __init__(self, config: ChimeraTextConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = RMSNorm(config.hidden_size)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of each token of the vocabulary."""
        return self.decoder(self.norm(F.gelu(self.dense(x))))


class ChimeraForMaskedLM(ChimeraTextPreTrainedModel):
    """`ChimeraTextModel` that predicts masked tokens.

    Shapes: ``input_ids [B, T]`` → ``logits [B, T, vocab_size]``.
    """

    _tied_weights_keys = {"cls.decoder.weight": "chimera.embeddings.weight"}  # noqa: RUF012

    def __init__(self, config: ChimeraTextConfig):
        super().__init__(config)
        self.chimera = ChimeraTextModel(config)
        self.cls = ChimeraMaskedLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        """The layer whose weights may be tied to the embedding."""
        return self.cls.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replace the output layer."""
        self.cls.decoder = new_embeddings

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """Scores, and the loss if ``labels [B, T]`` are given: tokens, or −100 to ignore a position.

        Other arguments are those of `ChimeraTextModel`.
        """
        outputs = self.chimera(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        logits = self.cls(outputs.last_hidden_state)
        loss = None if labels is None else self.loss_function(logits, labels, self.config.vocab_size)
        return MaskedLMOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


class ChimeraTextClassifier(ChimeraTextPreTrainedModel):
    """`ChimeraTextModel` with a linear classifier, ``[..., hidden_size]`` → ``[..., num_labels]``."""

    def __init__(self, config: ChimeraTextConfig):
        super().__init__(config)
        self.chimera = ChimeraTextModel(config)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)  # ty: ignore[invalid-argument-type]
        self.post_init()

    def scores(self, features: Tensor) -> Any:
        """Scores of each class."""
        return self.classifier(self.dropout(features))


class ChimeraForSequenceClassification(ChimeraTextClassifier):
    """`ChimeraTextModel` with a linear layer on the mean of the tokens.

    Shapes: ``input_ids [B, T]`` → ``logits [B, num_labels]``.
    """

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Scores, and the loss if ``labels`` are given: classes ``[B]``, or according to ``config.problem_type``.

        Other arguments are those of `ChimeraTextModel`.
        """
        if kwargs.get("seq_idx") is not None:
            raise ValueError("sequence classification needs one text per row: pad the batch and leave seq_idx out")
        if labels is not None:
            check_labels(labels, self.config)
        outputs = self.chimera(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        logits = self.scores(outputs.pooler_output)
        loss = None if labels is None else self.loss_function(labels, logits, self.config)
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


class ChimeraForTokenClassification(ChimeraTextClassifier):
    """`ChimeraTextModel` with a linear layer on each token.

    Shapes: ``input_ids [B, T]`` → ``logits [B, T, num_labels]``.
    """

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> TokenClassifierOutput:
        """Scores, and the loss if ``labels [B, T]`` are given: classes, or −100 to ignore a position.

        Other arguments are those of `ChimeraTextModel`.
        """
        if labels is not None:
            check_labels(labels, self.config)
        outputs = self.chimera(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        logits = self.scores(outputs.last_hidden_state)
        loss = None if labels is None else self.loss_function(logits, labels, self.config)
        return TokenClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


class ChimeraForQuestionAnswering(ChimeraTextPreTrainedModel):
    """`ChimeraTextModel` that finds where an answer starts and ends in a text.

    Shapes: ``input_ids [B, T]`` → ``start_logits [B, T]``, ``end_logits [B, T]``.
    """

    def __init__(self, config: ChimeraTextConfig):
        super().__init__(config)
        self.chimera = ChimeraTextModel(config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        **kwargs: Any,
    ) -> QuestionAnsweringModelOutput:
        """Scores, and the loss if positions ``[B]`` of the first and the last token of the answer are given.

        Other arguments are those of `ChimeraTextModel`.
        """
        outputs = self.chimera(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        start, end = self.qa_outputs(outputs.last_hidden_state).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = self.loss_function(start, end, start_positions, end_positions)
        return QuestionAnsweringModelOutput(
            loss=loss, start_logits=start, end_logits=end, hidden_states=outputs.hidden_states
        )
