"""Text: the model, its heads and its configuration."""

from chimera_ssm.models.text.configuration import ChimeraTextConfig
from chimera_ssm.models.text.heads import (
    ChimeraForMaskedLM,
    ChimeraForQuestionAnswering,
    ChimeraForSequenceClassification,
    ChimeraForTokenClassification,
)
from chimera_ssm.models.text.modeling import ChimeraTextModel

__all__ = [
    "ChimeraForMaskedLM",
    "ChimeraForQuestionAnswering",
    "ChimeraForSequenceClassification",
    "ChimeraForTokenClassification",
    "ChimeraTextConfig",
    "ChimeraTextModel",
]
