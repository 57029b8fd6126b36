"""Layers: the mixer, its local convolutions, the kinds of data it is for, and the block around it."""

from chimera_ssm.nn.block import Block, DropPath
from chimera_ssm.nn.conv import NeighbourConv, WindowConv
from chimera_ssm.nn.kinds import Kind, OnDAG, OnGraph, OnGrid, OnLine, OnTwoLines, OnUndirectedLine
from chimera_ssm.nn.mixer import Chimera, MixerState

__all__ = [
    "Block",
    "Chimera",
    "DropPath",
    "Kind",
    "MixerState",
    "NeighbourConv",
    "OnDAG",
    "OnGraph",
    "OnGrid",
    "OnLine",
    "OnTwoLines",
    "OnUndirectedLine",
    "WindowConv",
]
