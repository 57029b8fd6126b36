"""Named graph models, as settings of `ChimeraGraphConfig`; the first four are the paper's, under 500k parameters."""

from chimera_ssm.models.graph.configuration import ATOM, BOND

_PEPTIDES = {"node_features": ATOM, "edge_features": BOND, "hidden_size": 64, "num_hidden_layers": 8, "dropout": 0.1}
_SUPERPIXELS = {
    "node_features": 14, "edge_features": 2, "hidden_size": 64, "num_hidden_layers": 8, "state_size": 64,
    "num_heads": 4, "dropout": 0.05, "level": "node", "problem_type": "single_label_classification",
}  # fmt: skip

PRESETS = {
    "chimera_graph_peptides_func": {
        **_PEPTIDES, "state_size": 96, "num_heads": 2, "num_labels": 10, "problem_type": "multi_label_classification",
    },
    "chimera_graph_peptides_struct": {
        **_PEPTIDES, "state_size": 80, "num_heads": 4, "num_labels": 11, "problem_type": "regression",
    },
    "chimera_graph_pascalvoc_sp": {**_SUPERPIXELS, "num_labels": 21},
    "chimera_graph_coco_sp": {**_SUPERPIXELS, "num_labels": 81},
    # For tests.
    "chimera_graph_test": {
        **_PEPTIDES, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, "num_heads": 2, "num_labels": 3,
    },
}  # fmt: skip
