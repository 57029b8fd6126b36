"""Models to compare with: baseline mixers in our models, and models of `transformers` and PyG.

Importing this package registers the mixers ``"s4"``, ``"hyena"`` (images), ``"mlp"``, ``"m2"`` (texts), ``"gcn"``,
``"gcn_plus"``, ``"gine"``, ``"gated_gcn"``, ``"gps"``, ``"san"``, ``"exphormer"``, ``"bigbird"``, ``"graph_mamba"``,
``"gmn"``, ``"neural_walker"``, ``"neural_walker_chimera"`` (graphs), the presets of BERT and of graph networks, and
with the Auto classes of `transformers` the models that are not theirs. Saved models with a baseline mixer load after
this import.
"""

from transformers import AutoConfig, AutoImageProcessor, AutoModelForImageClassification, AutoModelForMaskedLM

from chimera_lab.baselines import graph as _graph  # noqa: F401  (registers the graph baselines)
from chimera_lab.baselines.causal import causal_model, match_causal_parameters
from chimera_lab.baselines.hyena import Hyena
from chimera_lab.baselines.image import image_classifier, match_parameters
from chimera_lab.baselines.local_attention import (
    LocalConvBertConfig,
    LocalConvBertForMaskedLM,
    LocalConvViTConfig,
    LocalConvViTForImageClassification,
)
from chimera_lab.baselines.m2 import M2
from chimera_lab.baselines.matching import matching_width
from chimera_lab.baselines.mlp_mixer import MLPMixer
from chimera_lab.baselines.s4 import S4
from chimera_lab.baselines.text import match_text_parameters, text_model
from chimera_lab.baselines.vit import MixerViTConfig, MixerViTForImageClassification
from chimera_ssm.models import ChimeraImageProcessor

for _config, _model in (
    (MixerViTConfig, MixerViTForImageClassification),
    (LocalConvViTConfig, LocalConvViTForImageClassification),
):
    AutoConfig.register(_config.model_type, _config)
    AutoModelForImageClassification.register(_config, _model)
    AutoImageProcessor.register(_config, image_processor_classes={"pil": ChimeraImageProcessor})
AutoConfig.register(LocalConvBertConfig.model_type, LocalConvBertConfig)
AutoModelForMaskedLM.register(LocalConvBertConfig, LocalConvBertForMaskedLM)

__all__ = [
    "M2",
    "S4",
    "Hyena",
    "MLPMixer",
    "causal_model",
    "image_classifier",
    "match_causal_parameters",
    "match_parameters",
    "match_text_parameters",
    "matching_width",
    "text_model",
]
