"""Layers: the mixer, its local convolutions, the kinds of data it is for, the block around it, baselines."""

from chimera_ssm.nn.block import Block, DropPath
from chimera_ssm.nn.conv import NeighbourConv, WindowConv
from chimera_ssm.nn.decay import mark_undecayed
from chimera_ssm.nn.graph_conv import ChimeraConv
from chimera_ssm.nn.hyena import Hyena
from chimera_ssm.nn.influence import influence
from chimera_ssm.nn.kinds import Kind, OnDAG, OnGraph, OnGrid, OnLine, OnRaster, OnTwoLines, OnUndirectedLine
from chimera_ssm.nn.m2 import M2
from chimera_ssm.nn.mixer import Chimera, MixerState
from chimera_ssm.nn.mlp_mixer import MLPMixer
from chimera_ssm.nn.s4 import S4
from chimera_ssm.nn.share import resolvent_share

__all__ = [
    "M2",
    "S4",
    "Block",
    "Chimera",
    "ChimeraConv",
    "DropPath",
    "Hyena",
    "Kind",
    "MLPMixer",
    "MixerState",
    "NeighbourConv",
    "OnDAG",
    "OnGraph",
    "OnGrid",
    "OnLine",
    "OnRaster",
    "OnTwoLines",
    "OnUndirectedLine",
    "WindowConv",
    "influence",
    "mark_undecayed",
    "resolvent_share",
]
