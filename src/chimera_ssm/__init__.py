"""Chimera: state space models on any topology.

    topology → adjacency → solver → mixer → block → model → recipe

Letters, the same everywhere: ``T`` nodes, ``E`` edges, ``H`` heads, ``P`` channels per head, ``N`` state size,
``G`` groups of heads that share B and C, ``K`` right-hand sides.

Every public name can be imported from here; it is loaded on first use.
"""

from importlib import import_module
from typing import Any

from chimera_ssm.errors import missing_extra
from chimera_ssm.integrations import install
from chimera_ssm.version import __version__

_HOMES = {
    "errors": ("TopologyError",),
    "topology": (
        "Batch", "DAG", "Graph", "Grid", "GridDAG", "Line", "Topology", "UndirectedLine", "batch", "merge_edges",
    ),
    "adjacency": (
        "Adjacency", "dag_adjacency", "graph_adjacency", "grid_adjacency", "hold_injection", "linear_attention",
        "mamba2", "retnet", "undirected_line_adjacency",
    ),
    "ops": (
        "Choice", "Dense", "Elimination", "Neumann", "Solver", "SparseLU", "Squaring", "Sweep", "checking", "mask",
        "mix", "select_solver", "set_workspace_limit", "solve",
    ),
    "nn": (
        "Block", "Chimera", "DropPath", "Kind", "MixerState", "NeighbourConv", "OnDAG", "OnGraph",
        "OnGrid", "OnLine", "OnRaster", "OnTwoLines", "OnUndirectedGrid", "OnUndirectedLine", "WindowConv", "influence",
        "no_weight_decay", "resolvent_share",
    ),
    "mamba": (
        "Accelerated", "accelerate", "causal_conv1d_fn", "causal_conv1d_update", "mamba_chunk_scan_combined",
        "selective_state_update",
    ),
    # They load PyG, which takes seconds.
    "nn.graph_conv": ("ChimeraConv",),
    "nn.explain": ("InfluenceExplainer",),
    "models": (
        "ChimeraCache", "ChimeraCausalConfig", "ChimeraCausalModel", "ChimeraForCausalLM", "ChimeraForGraphs",
        "ChimeraForImageClassification", "ChimeraForMaskedLM", "ChimeraForQuestionAnswering",
        "ChimeraForSequenceClassification", "ChimeraForTokenClassification", "ChimeraGraphConfig", "ChimeraGraphModel",
        "ChimeraImageConfig", "ChimeraImageModel", "ChimeraImageProcessor", "ChimeraTextConfig", "ChimeraTextModel",
        "convert_mamba2", "create_model", "export_mamba2", "list_models",
    ),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if (remedy := missing_extra(error)) is None:
            raise
        raise ModuleNotFoundError(f"{name} cannot be loaded: {remedy}", name=error.name) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


install()
