"""Images: the model, its configuration and its processor."""

from chimera_ssm.models.image.configuration import ChimeraImageConfig
from chimera_ssm.models.image.modeling import ChimeraForImageClassification, ChimeraImageModel
from chimera_ssm.models.image.processing import ChimeraImageProcessor

__all__ = ["ChimeraForImageClassification", "ChimeraImageConfig", "ChimeraImageModel", "ChimeraImageProcessor"]
