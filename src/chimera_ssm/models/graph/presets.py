"""Presets of graph models, as settings of `ChimeraGraphConfig`.

Ours have the defaults of the configuration. ``…_authors`` are the networks of the paper's results, as in its authors'
code, with the same number of parameters: 499,114 (Peptides-func), 504,331 (Peptides-struct), 485,589 (PascalVOC-SP) and
489,489 (COCO-SP). ``…_paper`` are those that the paper's text and tables describe.
"""

from typing import Any

from chimera_ssm.models.graph.configuration import ATOM, BOND

_TASKS: dict[str, dict[str, Any]] = {
    "peptides_func": {
        "node_features": ATOM, "edge_features": BOND, "num_labels": 10, "problem_type": "multi_label_classification",
        "num_heads": 2, "dropout": 0.1,
    },
    "peptides_struct": {
        "node_features": ATOM, "edge_features": BOND, "num_labels": 11, "problem_type": "regression",
        "num_heads": 4, "dropout": 0.1,
    },
    "pascalvoc_sp": {
        "node_features": 14, "edge_features": 2, "num_labels": 21, "problem_type": "single_label_classification",
        "num_heads": 4, "dropout": 0.05, "level": "node", "head_layers": 2,
    },
    "coco_sp": {
        "node_features": 14, "edge_features": 2, "num_labels": 81, "problem_type": "single_label_classification",
        "num_heads": 4, "dropout": 0.05, "level": "node", "head_layers": 2,
    },
}  # fmt: skip
_STATES = {"peptides_func": 96, "peptides_struct": 80, "pascalvoc_sp": 64, "coco_sp": 64}

_AUTHORS = {
    "hidden_size": 64, "num_hidden_layers": 8, "state_size": 64, "arrangement": "sequential", "local": "gated_gcn",
    "edge_messages": False, "norm": "graph", "gate": True, "conv": False, "injection": "projected",
    "normalize": "column", "gamma": 1 / 1.05, "shared_bias": True, "init": "paper", "mlp_ratio": 2, "dt_min": 0.005,
}  # fmt: skip
_PAPER = {
    "hidden_size": 64, "num_hidden_layers": 8, "arrangement": "parallel", "local": "gcn", "norm": "layer",
    "final_norm": True, "gate": False, "injection": "step", "init": "paper", "mlp_ratio": 4, "head_layers": 2,
    "dt_min": 0.01,
}  # fmt: skip

PRESETS: dict[str, dict[str, Any]] = {
    **{f"chimera_graph_{task}": facts for task, facts in _TASKS.items()},
    **{
        f"chimera_graph_{task}_authors": {**facts, **_AUTHORS, "dt_max": 0.1 if "peptides" in task else 0.2}
        for task, facts in _TASKS.items()
    },
    **{
        f"chimera_graph_{task}_paper": {**facts, **_PAPER, "state_size": _STATES[task]}
        for task, facts in _TASKS.items()
    },
    # For tests.
    "chimera_graph_test": {
        **_TASKS["peptides_func"], "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, "num_labels": 3,
    },
}  # fmt: skip
