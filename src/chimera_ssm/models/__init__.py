"""Models for `transformers`; importing this package registers them with its Auto classes."""

from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModel,
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
    ChimeraForMaskedLM,
    ChimeraForQuestionAnswering,
    ChimeraForSequenceClassification,
    ChimeraForTokenClassification,
    ChimeraTextConfig,
    ChimeraTextModel,
)

AutoConfig.register(ChimeraImageConfig.model_type, ChimeraImageConfig)
AutoModel.register(ChimeraImageConfig, ChimeraImageModel)
AutoModelForImageClassification.register(ChimeraImageConfig, ChimeraForImageClassification)
AutoImageProcessor.register(ChimeraImageConfig, image_processor_classes={"pil": ChimeraImageProcessor})
AutoConfig.register(ChimeraGraphConfig.model_type, ChimeraGraphConfig)
AutoModel.register(ChimeraGraphConfig, ChimeraGraphModel)

AutoConfig.register(ChimeraTextConfig.model_type, ChimeraTextConfig)
AutoModel.register(ChimeraTextConfig, ChimeraTextModel)
AutoModelForMaskedLM.register(ChimeraTextConfig, ChimeraForMaskedLM)
AutoModelForSequenceClassification.register(ChimeraTextConfig, ChimeraForSequenceClassification)
AutoModelForTokenClassification.register(ChimeraTextConfig, ChimeraForTokenClassification)
AutoModelForQuestionAnswering.register(ChimeraTextConfig, ChimeraForQuestionAnswering)

__all__ = [
    "ChimeraForGraphs",
    "ChimeraForImageClassification",
    "ChimeraForMaskedLM",
    "ChimeraForQuestionAnswering",
    "ChimeraForSequenceClassification",
    "ChimeraForTokenClassification",
    "ChimeraGraphConfig",
    "ChimeraGraphModel",
    "ChimeraImageConfig",
    "ChimeraImageModel",
    "ChimeraImageProcessor",
    "ChimeraTextConfig",
    "ChimeraTextModel",
    "create_model",
    "list_models",
]
