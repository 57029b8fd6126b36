"""Text, at a laptop's scale: the paper's table 1 and its control of layers on WikiText-2, longer texts, and GLUE."""

from dataclasses import replace

from chimera_ssm.recipes import find_recipe
from chimera_ssm.studies.study import Row, Section, Study

_LENGTH, _LONGEST = 128, 2048
_DAG = Row("Chimera dag", {}, "1.46, 68.9")
_UG = Row("Chimera ug", {"variant": "ug"}, "1.49, 68.5")
_BERT = Row("BERT", {"mixer": "bert", "positions": _LONGEST}, "1.59, 67.3")
_OTHERS = (
    _BERT,
    Row("FNet", {"mixer": "fnet"}, "1.94, 61.3"),
    Row("MLP-Mixer", {"mixer": "mlp", "num_hidden_layers": 2}, "1.77, 63.5"),
    Row("M2", {"mixer": "m2"}, "1.65, 65.9"),
)
_EXPECTED = (_DAG.name, _UG.name), tuple(row.name for row in _OTHERS)

_WIKITEXT = replace(
    find_recipe("text/wikitext2", "laptop"),
    vocab_size=4096,
    length=_LENGTH,
    hidden_size=96,
    num_hidden_layers=4,
    state_size=16,
    num_heads=6,
    dropout=0.0,  # too short a training to need it, and Chimera has none
    steps=500,
    warmup_steps=30,
    batch_size=16,
    eval_every=100_000,  # evaluated at the end alone
)

_POSITIONS = (
    f"BERT has {_LONGEST:,} learned positions, of which those beyond {_LENGTH} are never trained; these are not "
    f"counted in the 3 %, but are among the parameters given."
)


def _fine_tuning(name: str, title: str, train_limit: int, metric: str, also: tuple[str, ...] = ()) -> Study:
    """A task of GLUE from each model of the table, seed by seed."""
    return Study(
        doc=f"Fine-tuned on {title}, on {train_limit:,} texts, from the models above.",
        recipe_name=f"text/glue-{name}",
        recipe=replace(
            find_recipe(f"text/glue-{name}", "laptop"),
            epochs=3,
            warmup_epochs=0.2,
            train_limit=train_limit,
            eval_every=100_000,
        ),
        metric=metric,
        also=also,
        learning_rates=(3e-4, 1e-3),
        sections=(
            Section(
                f"Fine-tuning: {title}",
                tuple(Row(row.name, {"from_": row.name}) for row in (_DAG, _UG, *_OTHERS)),
                expected=_EXPECTED,
            ),
        ),
        standard="deviations",
        majority=True,
    )


STUDIES = {
    "text": Study(
        doc="Masked words of WikiText-2, in the paper's comparisons, at a laptop's scale; then GLUE.",
        recipe_name="text/wikitext2",
        recipe=_WIKITEXT,
        metric="loss",
        larger_is_better=False,
        also=("accuracy",),
        learning_rates=(1e-3, 3e-3, 9e-3),
        sweep={"steps": 160, "warmup_steps": 10},
        validation=0.03,
        standard="deviations",
        sections=(
            Section(
                "Masked words",
                (_DAG, _UG, *_OTHERS),
                expected=_EXPECTED,
                note=f"{_POSITIONS} MLP-Mixer has half the layers: its matrices along {_LENGTH} tokens would otherwise "
                "take most of its parameters. The paper's figures are of models of 110 million parameters on C4.",
            ),
            Section(
                "Layers controlled",
                (
                    Row("Chimera, 4 layers", {}, "1.81, 63.6"),
                    Row("Chimera, 2 layers", {"num_hidden_layers": 2, "expand": 4, "num_heads": 12}, "1.81, 63.6"),
                    Row("BERT, 2 layers", {"mixer": "bert", "num_hidden_layers": 2}, "1.95, 61.8"),
                ),
                expected=(("Chimera, 4 layers", "Chimera, 2 layers"), "BERT, 2 layers"),
                note="Chimera with 2 layers has expand 4. In the paper 12, 6 and 6 layers, 70 million parameters.",
            ),
            Section(
                f"Trained at length {_LENGTH}, tested at 512 and 2,048",
                (
                    Row(_DAG.name, _DAG.changes),
                    Row(_UG.name, _UG.changes),
                    Row("BERT, learned positions", _BERT.changes),
                    Row("BERT, rotary positions", {"mixer": "bert_rotary", "positions": _LONGEST}),
                ),
                evaluations={
                    "512": {"length": 512, "eval_batch": 16},
                    "2,048": {"length": 2048, "eval_batch": 4},
                },
                note=f"{_POSITIONS} Rotary ones are computed.",
            ),
        ),
        then={
            "cola": _fine_tuning("cola", "CoLA", 3000, "matthews"),
            "sst2": _fine_tuning("sst2", "SST-2", 3000, "accuracy"),
            "mrpc": _fine_tuning("mrpc", "MRPC", 2000, "f1", ("accuracy",)),
        },
    )
}
