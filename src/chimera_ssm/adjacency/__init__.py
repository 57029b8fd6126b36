"""Adjacency: pure functions from step sizes and edge features to edge weights and the factor of B̄."""

from chimera_ssm.adjacency.dag import dag_adjacency, grid_adjacency
from chimera_ssm.adjacency.graph import graph_adjacency
from chimera_ssm.adjacency.injection import INJECTIONS, hold_injection
from chimera_ssm.adjacency.sequence_models import linear_attention, mamba2, retnet
from chimera_ssm.adjacency.steps import Adjacency, inverse_softplus
from chimera_ssm.adjacency.undirected_line import undirected_line_adjacency

__all__ = [
    "INJECTIONS", "Adjacency", "dag_adjacency", "graph_adjacency", "grid_adjacency", "hold_injection",
    "inverse_softplus", "linear_attention", "mamba2", "retnet", "undirected_line_adjacency",
]  # fmt: skip
