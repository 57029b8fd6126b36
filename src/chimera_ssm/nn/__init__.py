"""Layers: the mixer, its local convolutions, the kinds of topologies it processes, and the block around it."""

from chimera_ssm.nn.block import Block, DropPath
from chimera_ssm.nn.inspection import influence, resolvent_share
from chimera_ssm.nn.kinds import (
    Kind,
    OnDAG,
    OnGraph,
    OnGrid,
    OnLine,
    OnRaster,
    OnTwoLines,
    OnUndirectedGrid,
    OnUndirectedLine,
)
from chimera_ssm.nn.local_conv import NeighbourConv
from chimera_ssm.nn.mixer import Chimera
from chimera_ssm.nn.norm import RMSNorm
from chimera_ssm.nn.recurrence import MixerState
from chimera_ssm.nn.weight_decay import no_weight_decay
from chimera_ssm.nn.window_conv import WindowConv

__all__ = [
    "Block", "Chimera", "DropPath", "Kind", "MixerState", "NeighbourConv", "OnDAG", "OnGraph", "OnGrid",
    "OnLine", "OnRaster", "OnTwoLines", "OnUndirectedGrid", "OnUndirectedLine", "RMSNorm", "WindowConv", "influence",
    "no_weight_decay", "resolvent_share",
]  # fmt: skip
