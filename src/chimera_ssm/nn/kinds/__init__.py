"""How a mixer treats each kind of topology: convolution, step sizes, sharing of B and C, and edge weights.

There is one class for each kind of topology. Options belong to the kind; the mixer does not know them.
"""

from chimera_ssm.nn.kinds.base import Kind, check_kind
from chimera_ssm.nn.kinds.dag import OnDAG
from chimera_ssm.nn.kinds.graph import OnGraph
from chimera_ssm.nn.kinds.grid import SHARING, OnGrid, OnRaster, OnUndirectedGrid
from chimera_ssm.nn.kinds.line import OnLine, OnTwoLines, OnUndirectedLine

#: The names of all kinds.
KINDS = (
    "OnDAG", "OnGraph", "OnGrid", "OnLine", "OnRaster", "OnTwoLines", "OnUndirectedGrid", "OnUndirectedLine",
)  # fmt: skip

__all__ = [
    "KINDS", "SHARING", "Kind", "OnDAG", "OnGraph", "OnGrid", "OnLine", "OnRaster", "OnTwoLines", "OnUndirectedGrid",
    "OnUndirectedLine", "check_kind",
]  # fmt: skip
