"""Models for `transformers`; importing this package registers them with its Auto classes."""

from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from chimera_ssm.models.graph import ChimeraForGraphs, ChimeraGraphConfig, ChimeraGraphModel
from chimera_ssm.models.image import (
    ChimeraForImageClassification,
    ChimeraImageConfig,
    ChimeraImageModel,
    ChimeraImageProcessor,
)
from chimera_ssm.models.registry import create_model, list_models
from chimera_ssm.models.text import (
    ChimeraCache,
    ChimeraCausalConfig,
    ChimeraCausalModel,
    ChimeraForCausalLM,
    ChimeraForMaskedLM,
    ChimeraForQuestionAnswering,
    ChimeraForSequenceClassification,
    ChimeraForTokenClassification,
    ChimeraTextConfig,
    ChimeraTextModel,
    convert_mamba2,
    export_mamba2,
)

AutoConfig.register(ChimeraImageConfig.model_type, ChimeraImageConfig, exist_ok=True)
AutoModel.register(ChimeraImageConfig, ChimeraImageModel)
AutoModelForImageClassification.register(ChimeraImageConfig, ChimeraForImageClassification)
AutoImageProcessor.register(ChimeraImageConfig, image_processor_classes={"pil": ChimeraImageProcessor})
AutoConfig.register(ChimeraGraphConfig.model_type, ChimeraGraphConfig, exist_ok=True)
AutoModel.register(ChimeraGraphConfig, ChimeraGraphModel)

AutoConfig.register(ChimeraTextConfig.model_type, ChimeraTextConfig, exist_ok=True)
AutoModel.register(ChimeraTextConfig, ChimeraTextModel)
AutoModelForMaskedLM.register(ChimeraTextConfig, ChimeraForMaskedLM)
AutoModelForSequenceClassification.register(ChimeraTextConfig, ChimeraForSequenceClassification)
AutoModelForTokenClassification.register(ChimeraTextConfig, ChimeraForTokenClassification)
AutoModelForQuestionAnswering.register(ChimeraTextConfig, ChimeraForQuestionAnswering)
AutoConfig.register(ChimeraCausalConfig.model_type, ChimeraCausalConfig, exist_ok=True)
AutoModel.register(ChimeraCausalConfig, ChimeraCausalModel)
AutoModelForCausalLM.register(ChimeraCausalConfig, ChimeraForCausalLM)

__all__ = [
    "ChimeraCache", "ChimeraCausalConfig", "ChimeraCausalModel", "ChimeraForCausalLM", "ChimeraForGraphs",
    "ChimeraForImageClassification", "ChimeraForMaskedLM", "ChimeraForQuestionAnswering",
    "ChimeraForSequenceClassification", "ChimeraForTokenClassification", "ChimeraGraphConfig", "ChimeraGraphModel",
    "ChimeraImageConfig", "ChimeraImageModel", "ChimeraImageProcessor", "ChimeraTextConfig", "ChimeraTextModel",
    "convert_mamba2", "create_model", "export_mamba2", "list_models",
]  # fmt: skip
