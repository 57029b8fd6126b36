"""Topologies: nodes and edges of a graph. Integers only, no weights.

Line  UndirectedLine      a sequence, directed or undirected
GridDAG  Grid             an image, a video, a volume; directed from one corner or undirected
DAG  Graph                any acyclic graph, any graph
batch                     a disjoint union of several
"""

from chimera_ssm.topology.base import Topology
from chimera_ssm.topology.batch import Batch, batch
from chimera_ssm.topology.dag import DAG
from chimera_ssm.topology.graph import Graph, merge_edges
from chimera_ssm.topology.grid import Grid, GridDAG
from chimera_ssm.topology.line import Line, UndirectedLine

__all__ = ["DAG", "Batch", "Graph", "Grid", "GridDAG", "Line", "Topology", "UndirectedLine", "batch", "merge_edges"]
