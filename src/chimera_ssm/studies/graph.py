"""Graphs, at a laptop's scale: the paper's tables 4 and 5 on Peptides-func, and how far each model hears."""

from dataclasses import replace

from chimera_ssm.recipes import find_recipe
from chimera_ssm.studies.figures import against_distance, learning_curves
from chimera_ssm.studies.study import Row, Section, Study

_EXACT = Row("Chimera, exact", {})
_NEUMANN = Row("Chimera, Neumann to the diameter", {"resolvent": "neumann"})
_DAG = Row("Chimera, two DAGs", {"resolvent": "dag"})
_GCN, _GATED, _GPS = (
    Row(name, {"mixer": mixer})
    for name, mixer in (("GCN", "gcn"), ("GatedGCN", "gated_gcn"), ("GPS + Transformer", "gps"))
)
_MODELS = _EXACT, _NEUMANN, _DAG, _GCN, _GATED, _GPS

_PEPTIDES = replace(
    find_recipe("graph/peptides-func", "laptop"),
    num_hidden_layers=3,
    state_size=16,
    train_limit=3624,  # a third
    epochs=15,
    eval_every=340,  # three epochs
)
_DISTANCES = 2, 3, 4, 6, 8, 12, 24, 32

STUDIES = {
    "graphs": Study(
        doc="Chimera and graph networks on Peptides-func, official split, a third of the training graphs.",
        recipe_name="graph/peptides-func",
        recipe=_PEPTIDES,
        metric="ap",
        learning_rates=(1e-3, 3e-3),
        sweep={"epochs": 3, "eval_every": 100_000},
        seeds=2,
        sections=(
            Section(
                "Against graph networks", (_EXACT, _GCN, _GATED, _GPS), expected=("Chimera, exact", "GPS + Transformer")
            ),
            Section("Exact and decomposed", (_EXACT, _DAG)),
        ),
        figures={"learning-curves": learning_curves},
    ),
    # A budget of its own: a series to the diameter, up to 150 on peptides, takes ten times as long as the exact solve.
    "truncation": Study(
        doc="The exact resolvent, its series to the diameter, and two DAGs, on a tenth of Peptides-func.",
        recipe_name="graph/peptides-func",
        recipe=replace(_PEPTIDES, train_limit=1024, epochs=4, eval_every=100_000),
        metric="ap",
        learning_rates=(2e-3,),
        sweep={"epochs": 1, "warmup_epochs": 0.0, "train_limit": 320},
        seeds=2,
        sections=(Section("Exact, truncated, decomposed", (_EXACT, _NEUMANN, _DAG)),),
    ),
    "long-range": Study(
        doc="A colour asked for across a ring, three layers, trained on distances 1 to 24: who hears how far.",
        recipe_name="graph/rings",
        recipe=replace(find_recipe("graph/rings"), eval_every=100_000),
        metric="accuracy",
        learning_rates=(1e-3, 3e-3),
        seeds=2,
        sections=(
            Section(
                "Accuracy by distance", _MODELS, evaluations={f"{d} hops": {"data": f"rings:{d}"} for d in _DISTANCES}
            ),
        ),
        figures={"accuracy-by-distance": against_distance},
    ),
}
