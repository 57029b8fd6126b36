"""Images: the model, its configuration and processor, and classifiers to compare with."""

from chimera_ssm.models.image.classifiers import image_classifier, match_parameters
from chimera_ssm.models.image.configuration import ChimeraImageConfig
from chimera_ssm.models.image.modeling import ChimeraForImageClassification, ChimeraImageModel
from chimera_ssm.models.image.processing import ChimeraImageProcessor

__all__ = [
    "ChimeraForImageClassification",
    "ChimeraImageConfig",
    "ChimeraImageModel",
    "ChimeraImageProcessor",
    "image_classifier",
    "match_parameters",
]
