"""Text: the model with its heads, its configuration, and models to compare with."""

from chimera_ssm.models.text.comparison import match_text_parameters, text_model
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
    "match_text_parameters",
    "text_model",
]
