"""Text: the model, its heads and its configuration."""

from chimera_ssm.models.text.cache import ChimeraCache
from chimera_ssm.models.text.causal import ChimeraCausalModel, ChimeraForCausalLM
from chimera_ssm.models.text.causal_configuration import ChimeraCausalConfig
from chimera_ssm.models.text.configuration import ChimeraTextConfig
from chimera_ssm.models.text.convert import convert_mamba2, export_mamba2
from chimera_ssm.models.text.heads import (
    ChimeraForMaskedLM,
    ChimeraForQuestionAnswering,
    ChimeraForSequenceClassification,
    ChimeraForTokenClassification,
)
from chimera_ssm.models.text.modeling import ChimeraTextModel

__all__ = [
    "ChimeraCache", "ChimeraCausalConfig", "ChimeraCausalModel", "ChimeraForCausalLM", "ChimeraForMaskedLM",
    "ChimeraForQuestionAnswering", "ChimeraForSequenceClassification", "ChimeraForTokenClassification",
    "ChimeraTextConfig", "ChimeraTextModel", "convert_mamba2", "export_mamba2",
]  # fmt: skip
