"""Graphs: the model and its configuration."""

from chimera_ssm.models.graph.configuration import ChimeraGraphConfig
from chimera_ssm.models.graph.modeling import ChimeraForGraphs, ChimeraGraphModel, GraphOutput

__all__ = ["ChimeraForGraphs", "ChimeraGraphConfig", "ChimeraGraphModel", "GraphOutput"]
