"""Models for `transformers`; importing this package registers them with its Auto classes."""

from transformers import AutoConfig, AutoImageProcessor, AutoModel, AutoModelForImageClassification

from chimera_ssm.models.graph import ChimeraForGraphs, ChimeraGraphConfig, ChimeraGraphModel
from chimera_ssm.models.image import (
    ChimeraForImageClassification,
    ChimeraImageConfig,
    ChimeraImageModel,
    ChimeraImageProcessor,
    image_classifier,
    match_parameters,
)
from chimera_ssm.models.registry import create_model, list_models

AutoConfig.register(ChimeraImageConfig.model_type, ChimeraImageConfig)
AutoModel.register(ChimeraImageConfig, ChimeraImageModel)
AutoModelForImageClassification.register(ChimeraImageConfig, ChimeraForImageClassification)
AutoImageProcessor.register(ChimeraImageConfig, image_processor_classes={"pil": ChimeraImageProcessor})
AutoConfig.register(ChimeraGraphConfig.model_type, ChimeraGraphConfig)
AutoModel.register(ChimeraGraphConfig, ChimeraGraphModel)

__all__ = [
    "ChimeraForGraphs",
    "ChimeraForImageClassification",
    "ChimeraGraphConfig",
    "ChimeraGraphModel",
    "ChimeraImageConfig",
    "ChimeraImageModel",
    "ChimeraImageProcessor",
    "create_model",
    "image_classifier",
    "list_models",
    "match_parameters",
]
