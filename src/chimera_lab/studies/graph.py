"""Graphs: the paper's tables 4 and 5, on a part of Peptides-func and at its scale, and accuracy by distance."""

from dataclasses import replace
from typing import Any

from chimera_lab.baselines.graph import PUBLISHED
from chimera_lab.data.transfer import NAMES
from chimera_lab.recipes import find_recipe
from chimera_lab.studies.figures import against_distance, learning_curves
from chimera_lab.studies.study import Row, Section, Study

NETWORKS, TRUNCATED = "Against graph networks", "Exact, truncated, decomposed"
_FURTHER = "the other networks of table 4"
ABLATION = "What the resolvent, the convolution and the arrangement contribute"

#: Settings in which the authors' network differs from ours, apart from its size.
_AUTHORS = {
    name: getattr(find_recipe("graph/peptides-func", "paper"), name)
    for name in (
        "arrangement", "local", "edge_messages", "norm", "final_norm", "gate", "conv", "injection", "normalize",
        "gamma", "shared_bias", "init", "mlp_ratio", "dt_min", "dt_max",
    )
}  # fmt: skip

#: The paper's tables 4 and 5: Peptides-func AP, Peptides-struct MAE, PascalVOC-SP and COCO-SP macro F1.
_DATA = {"peptides-func": "ap", "peptides-struct": "mae", "pascalvoc-sp": "f1", "coco-sp": "f1"}
_TABLES = {
    "Chimera, exact": (0.7021, 0.2433, 0.4460, 0.3977),
    "Chimera, Neumann to the diameter": (0.6979, 0.2420, 0.4353, 0.3833),
    # tuned again by Tönshoff et al.
    "GCN": (0.6860, 0.2460, 0.2078, 0.1338),
    "GINE": (0.6621, 0.2473, 0.2718, 0.2125),
    "GatedGCN": (0.6765, 0.2477, 0.3880, 0.2922),
    "GPS + Transformer": (0.6534, 0.2509, 0.4440, 0.3884),
    # as first published
    "GCN, first": (0.5930, 0.3496, 0.1268, 0.0841),
    "GINE, first": (0.5498, 0.3547, 0.1265, 0.1339),
    "GatedGCN, first": (0.5864, 0.3420, 0.2873, 0.2641),
    "GPS + Transformer, first": (0.6575, 0.2510, 0.3689, 0.3774),
    "SAN + LapPE": (0.6384, 0.2683, 0.3230, 0.2592),
    "Exphormer": (0.6527, 0.2481, 0.3975, 0.3430),
    "GPS + BigBird": (0.5854, 0.2842, 0.2762, 0.2622),
    "Graph-Mamba (Wang et al.)": (0.6739, 0.2478, 0.4191, 0.3960),
    "Graph Mamba (Behrouz and Hashemi)": (0.7071, 0.2473, 0.4393, 0.3974),
    "NeuralWalker": (0.7096, 0.2468, 0.4912, 0.4398),
}
#: The other networks of table 4, and NeuralWalker with our layer in place of its message passing.
_OTHERS: dict[str, dict[str, Any]] = {
    "SAN + LapPE": {"mixer": "san", "eigenvectors": 10},
    "Exphormer": {"mixer": "exphormer", "eigenvectors": 10},
    "GPS + BigBird": {"mixer": "bigbird"},
    "Graph-Mamba (Wang et al.)": {"mixer": "graph_mamba", "state_size": 16},
    "Graph Mamba (Behrouz and Hashemi)": {"mixer": "gmn", "state_size": 16},
    "NeuralWalker": {"mixer": "neural_walker", "state_size": 16, "walk_length": 25},
    "NeuralWalker with Chimera": {"mixer": "neural_walker_chimera", "state_size": 16, "walk_length": 25},
}
#: How they were trained on Peptides-func, by mixer.
_TRAINED: dict[str, dict[str, Any]] = {
    "san": {"lr": 3e-4, "batch_size": 128},
    "exphormer": {"lr": 3e-4, "batch_size": 128},
    "graph_mamba": {"lr": 1e-3, "batch_size": 128, "weight_decay": 0.01},
    "neural_walker": {"lr": 2e-3, "batch_size": 32},
    "neural_walker_chimera": {"lr": 2e-3, "batch_size": 32},
}
_BUILT: dict[str, dict[str, Any]] = {
    "Chimera, exact": {},
    "Chimera, Neumann to the diameter": {"resolvent": "neumann"},
    "Chimera, two DAGs": {"resolvent": "dag"},
    "Chimera, L = I": {"resolvent": "identity"},
    "Chimera without convolution": {"conv": False},
    "Chimera, the authors' network": _AUTHORS,
    "GCN": {"mixer": "gcn"},
    "GCN plus": {"mixer": "gcn_plus"},
    "GINE": {"mixer": "gine"},
    "GatedGCN": {"mixer": "gated_gcn"},
    "GPS + Transformer": {"mixer": "gps"},
    **_OTHERS,
}
#: The other networks on small tasks of distance: longer walks, and one head where widths would otherwise have to be
#: even, too coarse to match 30,000 parameters.
_FAR: dict[str, dict[str, Any]] = {
    name: changes
    | ({} if changes["mixer"] in ("exphormer", "bigbird") else {"num_heads": 1})
    | ({"walk_length": 50} if "walk_length" in changes else {})
    for name, changes in _OTHERS.items()
}
#: Rows on generated graphs, which have no edge features.
_GIN, _NO_LOCAL = "GIN", "Chimera without local layer"
_GENERATED: dict[str, dict[str, Any]] = {
    "Chimera, exact": {},
    "Chimera, L = I": {"resolvent": "identity"},
    _NO_LOCAL: {"local": "none", "conv": False},
    "GCN": {"mixer": "gcn"},
    _GIN: {"mixer": "gine"},
    "GatedGCN": {"mixer": "gated_gcn"},
    "GPS + Transformer": {"mixer": "gps"},
}
_EXACT, _NEUMANN, _DAG, _IDENTITY, _NO_CONV, _THEIRS, _GCN, _GCN_PLUS, _GINE, _GATED, _GPS, *_ = _BUILT
_ELSEWHERE = tuple(name for name in _TABLES if name not in _BUILT)
_NOTE = (
    'Rows with "first" are as first published, those without as tuned again later; the rows trained here are compared '
    "with the latter."
)
_SMALLER = "The paper trains larger models on all graphs, for 200 epochs."


def _rows(data: str, *names: str) -> tuple[Row, ...]:
    """Rows to train, with the paper's figure on a data set."""
    paper = {row.name: row.paper for row in _known(data, *_TABLES)}
    return tuple(Row(name, _BUILT[name], paper.get(name, {})) for name in names)


def _published(data: str) -> tuple[Row, ...]:
    """The other networks at the paper's scale, with published settings; the width follows from the parameters."""
    rows = []
    for row in _rows(data, *_OTHERS):
        mixer = _OTHERS[row.name]["mixer"]
        changes = {"mixer": mixer, **PUBLISHED[mixer], **_TRAINED.get(mixer, {})}
        if mixer == "exphormer" and not data.startswith("peptides"):
            changes |= {"expander_degree": 4}
        rows.append(replace(row, changes=changes))
    return tuple(rows)


def _behind(data: str, *names: str) -> tuple[str, ...]:
    """The rows that are behind Chimera in the paper."""
    place = [*_DATA].index(data)
    sign = -1 if _DATA[data] == "mae" else 1
    known = [name for name in names if name in _TABLES]
    return tuple(name for name in known if sign * (_TABLES[_EXACT][place] - _TABLES[name][place]) > 0)


def _known(data: str, *names: str) -> tuple[Row, ...]:
    """Rows that are printed from the paper."""
    place = [*_DATA].index(data)
    return tuple(Row(name, None, {_DATA[data]: _TABLES[name][place]}) for name in names)


_PEPTIDES = replace(
    find_recipe("graph/peptides-func", "laptop"),
    train_limit=3624,  # a third
    epochs=15,
    eval_every=340,  # three epochs
)
_DISTANCES = 2, 3, 4, 6, 8, 12, 24, 32


def _benchmark(data: str, metric: str) -> Study:
    """A task of the benchmark at the paper's scale."""
    recipe = find_recipe(f"graph/{data}", "paper")
    return Study(
        doc=f"Chimera and graph networks with half a million parameters on {data}, as in the paper.",
        recipe_name=f"graph/{data}",
        recipe=recipe,
        metric=metric,
        larger_is_better=metric != "mae",
        learning_rates=(),  # the paper's
        test={"part": "test"},
        seeds=4,
        sections=(
            Section(
                NETWORKS,
                _rows(data, _EXACT, _GCN, _GINE, _GATED, _GPS) + _published(data) + _known(data, *_ELSEWHERE),
                (_EXACT, _behind(data, _GCN, _GINE, _GATED, _GPS, *_OTHERS)),
                note=_NOTE,
            ),
            Section(TRUNCATED, _rows(data, _EXACT, _DAG, _NEUMANN, _GPS), (_EXACT, _GPS)),
        ),
        figures={"learning-curves": learning_curves},
    )


def _pair(title: str, rows: tuple[Row, ...], others: tuple[Row, ...], behind: tuple[str, ...], **more: Any):
    """A section on generated graphs, and one with the other networks of table 4 beside the same first row."""
    first = rows[0]
    return (
        Section(title, rows, (first.name, behind) if behind else (), **more),
        Section(f"{title}: {_FURTHER}", (first, *others), (first.name, tuple(row.name for row in others)), **more),
    )


def _property_sections(target: str) -> tuple[Section, Section]:
    """A property of graphs; names of rows end in it, since each has its own models."""

    def rows(changes: dict[str, dict[str, Any]]) -> tuple[Row, ...]:
        return tuple(Row(f"{name}, {target}", row | {"data": f"properties:{target}"}) for name, row in changes.items())

    behind = tuple(f"{name}, {target}" for name in (_GCN, _GIN, _GATED, _GPS))
    return _pair(target.capitalize(), rows(_GENERATED), rows(_FAR), behind)


def _rows_of(changes: dict[str, dict[str, Any]]) -> tuple[Row, ...]:
    return tuple(Row(name, row) for name, row in changes.items())


STUDIES = {
    "graphs": Study(
        doc="Chimera and graph networks on Peptides-func, official split, a third of the training graphs.",
        recipe_name="graph/peptides-func",
        recipe=_PEPTIDES,
        metric="ap",
        learning_rates=(1e-3, 3e-3, 1e-2),
        sweep={"epochs": 3, "eval_every": 100_000},
        sections=(
            Section(
                NETWORKS,
                _rows("peptides-func", _EXACT, _GCN, _GATED, _GPS) + _known("peptides-func", _GINE, *_ELSEWHERE),
                (_EXACT, _behind("peptides-func", _GCN, _GATED, _GPS)),
                note=f"{_NOTE} {_SMALLER}",
            ),
            Section(
                f"{NETWORKS}: {_FURTHER}",
                _rows("peptides-func", _EXACT, *_OTHERS),
                (_EXACT, _behind("peptides-func", *_OTHERS)),
                note=_SMALLER,
            ),
            Section(
                "Against GCN with edges inside",
                _rows("peptides-func", _EXACT, _GCN_PLUS),
                (_EXACT, _GCN_PLUS),
                note="GCN plus is GCN+ (Luo, Shi and Wu 2025), which is not in the paper.",
            ),
            Section(
                ABLATION,
                _rows("peptides-func", _EXACT, _IDENTITY, _NO_CONV, _THEIRS),
                (_EXACT, _IDENTITY),
                note="With L = I atoms meet in the local layer and the convolution alone.",
            ),
            Section(TRUNCATED, _rows("peptides-func", _EXACT, _DAG, _NEUMANN, _GPS), (_EXACT, _GPS), note=_SMALLER),
        ),
        figures={"learning-curves": learning_curves},
    ),
    "long-range": Study(
        doc="The colour of a node across a ring, three layers, trained on distances 1 to 24.",
        recipe_name="graph/rings",
        recipe=replace(find_recipe("graph/rings"), eval_every=100_000),
        metric="accuracy",
        learning_rates=(1e-3, 3e-3),
        sections=_pair(
            "Accuracy by distance",
            _rows_of({n: row for n, row in _BUILT.items() if n not in (_GINE, _THEIRS, *_OTHERS)}),
            _rows_of(_FAR),
            (),
            evaluations={f"{d} hops": {"data": f"rings:{d}"} for d in _DISTANCES},
        ),
        figures={"accuracy-by-distance": against_distance},
    ),
    "molecules": Study(
        doc="Polar surface area of the NCI's 5,000 molecules that come with rdkit, in Å².",
        recipe_name="graph/nci",
        recipe=replace(find_recipe("graph/nci"), eval_every=100_000),
        metric="mae",
        larger_is_better=False,
        learning_rates=(1e-3, 2e-3, 4e-3),
        sections=(
            Section(
                NETWORKS,
                tuple(Row(name, _BUILT[name]) for name in (_EXACT, _GCN, _GCN_PLUS, _GINE, _GATED, _GPS)),
                (_EXACT, (_GCN, _GCN_PLUS, _GINE, _GATED, _GPS)),
            ),
            Section(
                ABLATION,
                tuple(Row(name, _BUILT[name]) for name in (_EXACT, _IDENTITY, _NO_CONV)),
                (_EXACT, _IDENTITY),
            ),
        ),
    ),
    **{data: _benchmark(data, metric) for data, metric in _DATA.items()},
    "properties": Study(
        doc="Distances in PNA's random graphs of 25 to 35 nodes, two layers; labels divided by their maximum.",
        recipe_name="graph/properties",
        recipe=replace(find_recipe("graph/properties"), eval_every=100_000),
        metric="log10_mse",
        larger_is_better=False,
        learning_rates=(1e-3, 3e-3),
        sweep={"epochs": 4},
        sections=tuple(s for name in ("distance", "eccentricity", "diameter") for s in _property_sections(name)),
    ),
    "trees": Study(
        doc="Tree-NeighborsMatch: the value of the root's key, trained on depths 2 to 6. Message passing has seven "
        "layers, one more than the deepest tree; Chimera and GPS have two.",
        recipe_name="graph/trees",
        recipe=replace(find_recipe("graph/trees"), eval_every=100_000),
        metric="accuracy",
        learning_rates=(1e-3, 3e-3),
        sweep={"epochs": 1},
        sections=_pair(
            "Accuracy by depth",
            tuple(
                Row(name, row | ({"num_hidden_layers": 7} if name in (_GCN, _GIN, _GATED) else {}))
                for name, row in _GENERATED.items()
            ),
            _rows_of(_FAR),
            (_GCN, _GIN, _GATED, _GPS),
            evaluations={f"{depth} levels": {"data": f"trees:{depth}"} for depth in range(2, 7)},
        ),
        figures={"accuracy-by-depth": against_distance},
    ),
    "scenes": Study(
        doc="Which digit does each superpixel of a photograph with digits belong to? Classes of nodes, weighted.",
        recipe_name="graph/scenes",
        recipe=replace(find_recipe("graph/scenes"), eval_every=100_000),
        metric="f1",
        also=("accuracy",),
        learning_rates=(1e-3, 3e-3),
        sweep={"epochs": 4},
        sections=(
            Section(
                NETWORKS,
                tuple(Row(n, _BUILT[n]) for n in (_EXACT, _IDENTITY, _NO_CONV, _GCN, _GINE, _GATED, _GPS)),
                (_EXACT, (_IDENTITY, _GCN, _GINE, _GATED, _GPS)),
            ),
        ),
    ),
    "transfer": Study(
        doc="The colour of a node 3 to 50 hops away on rings, crossed rings and lollipops, three layers.",
        recipe_name="graph/transfer",
        recipe=replace(find_recipe("graph/transfer"), eval_every=100_000),
        metric="accuracy",
        learning_rates=(1e-3, 3e-3),
        sweep={"epochs": 4},
        sections=tuple(
            section
            for title, data in zip(("Rings", "Crossed rings", "Lollipops"), NAMES, strict=True)
            for section in _pair(
                title,
                _rows_of(_GENERATED),
                _rows_of(_FAR),
                (_GCN, _GIN, _GATED, _GPS),
                evaluations={f"{d} hops, {data}": {"data": f"{data}:{d}"} for d in (3, 5, 10, 20, 35, 50)},
                note="The column test is of all three shapes.",
            )
        ),
        figures={"accuracy-by-distance": against_distance},
    ),
}
