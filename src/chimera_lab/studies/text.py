"""Text: the paper's table 1 and its control of layers, on WikiText-2 and, at its scale, on C4; longer texts; GLUE."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chimera_lab.data.glue import TASKS
from chimera_lab.recipes import find_recipe
from chimera_lab.studies.study import Row, Section, Study, differences
from chimera_lab.training.recipe import Recipe

MASKED, LAYERS, ABLATION = "Masked words", "Layers controlled", "What the resolvent and the convolution contribute"
_LENGTH, _LONGEST = 128, 2048

#: The paper's table 1: loss and accuracy of masked words, then the tasks of GLUE.
_TASKS = "mnli", "qnli", "qqp", "rte", "sst2", "mrpc", "cola", "stsb"
_TABLE_1 = {
    "Chimera dag": (1.46, 68.9, 84.11, 89.78, 89.77, 77.98, 93.69, 90.36, 57.08, 88.68),
    "Chimera ug": (1.49, 68.5, 83.63, 88.98, 89.32, 73, 93.67, 89.4, 56.95, 88.82),
    "BERT": (1.59, 67.3, 84.1, 89.8, 91.2, 77.2, 91.2, 87.5, 54.6, 88.9),
    "FNet": (1.94, 61.3, 74.9, 82.1, 85.7, 63.6, 87.6, 86.4, 42.7, 83.1),
    "MLP-Mixer": (1.77, 63.5, 77.2, 82.4, 87.6, 67.3, 90.5, 86.5, 43.0, 85.2),
    "M2": (1.65, 65.9, 80.5, 86.0, 87.0, 69.3, 92.3, 89.2, 56.0, 86.9),
}
#: MLP-Mixer has matrices along as many tokens as it was trained on.
_CUT: dict[str, dict[str, Any]] = {"MLP-Mixer": {"length": _LENGTH}}
_CHIMERAS, _OTHERS = ("Chimera dag", "Chimera ug"), ("BERT", "FNet", "MLP-Mixer", "M2")


def _masked(changes: Mapping[str, Mapping[str, Any]], note: str) -> Section:
    """Table 1, as far as it is of masked words."""
    rows = tuple(
        Row(name, changes[name], {"loss": loss, "accuracy": accuracy / 100})
        for name, (loss, accuracy, *_) in _TABLE_1.items()
    )
    return Section(MASKED, rows, expected=(_CHIMERAS, _OTHERS), note=note)


def _layers(long: tuple[str, Mapping], wide: tuple[str, Mapping], bert: tuple[str, Mapping], note: str) -> Section:
    """The paper's control of layers: names and changes of its three models."""
    rows = (
        Row(*long, {"loss": 1.8142, "accuracy": 0.6363}),
        Row(*wide, {"loss": 1.8108, "accuracy": 0.6360}),
        Row(*bert, {"loss": 1.9466, "accuracy": 0.6176}),
    )
    return Section(LAYERS, rows, expected=((long[0], wide[0]), bert[0]), note=note)


def _glue(name: str, recipe: Recipe, **study: Any) -> Study:
    """A task of GLUE from each model of the table, seed by seed."""
    metric, *also = TASKS[name].metrics
    place = 2 + _TASKS.index(name)
    rows = tuple(
        Row(row, {"from_": row} | _CUT.get(row, {}), {metric: figures[place] / 100})
        for row, figures in _TABLE_1.items()
    )
    return Study(
        recipe_name=f"text/glue-{name}",
        recipe=replace(recipe, eval_every=100_000),  # evaluated at the end alone
        metric=metric,
        also=tuple(also),
        sections=(Section(f"Fine-tuning: {TASKS[name].folder}", rows, expected=(_CHIMERAS, _OTHERS)),),
        majority=not TASKS[name].is_regression,
        matched=False,
        **study,
    )


_BERT = {"mixer": "bert", "positions": _LONGEST}
_LAPTOP_ROWS = {
    "Chimera dag": {},
    "Chimera ug": {"variant": "ug"},
    "BERT": _BERT,
    "FNet": {"mixer": "fnet"},
    "MLP-Mixer": {"mixer": "mlp", "num_hidden_layers": 2},
    "M2": {"mixer": "m2"},
}

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


def _small_glue(name: str, train_limit: int) -> Study:
    recipe = find_recipe(f"text/glue-{name}", "laptop")
    return _glue(
        name,
        replace(recipe, epochs=3, warmup_epochs=0.2, train_limit=train_limit),
        doc=f"Fine-tuned on {TASKS[name].folder}, on {train_limit:,} texts, from the models above.",
        learning_rates=(2e-4, 5e-4, 1.5e-3),
        sweep={"eval_every": 100_000},
        validation=0.1,
    )


#: Rows on generated sequences, which are also tested at up to 256 tokens.
_GENERATED: dict[str, dict[str, Any]] = {
    "Chimera": {},
    "L = I": {"resolvent": "identity"},
    "Chimera without convolution": {"conv": False},
    "BERT": {"mixer": "bert", "positions": 256},
    "BERT, rotary positions": {"mixer": "bert_rotary", "positions": 256},
    "BERT with the convolution": {"mixer": "bert_conv", "positions": 256},
}


def _sequences(task: str, evaluations: Mapping[str, Mapping[str, Any]]) -> Section:
    """A task on generated sequences; names of rows end in it, since each has its own models."""
    changes = differences(find_recipe("text/recall"), find_recipe(f"text/{task}"))
    rows = tuple(Row(f"{name}, {task}", changes | row) for name, row in _GENERATED.items())
    return Section(
        task.capitalize(),
        rows,
        (f"Chimera, {task}", (f"L = I, {task}", f"BERT, {task}")),
        note="BERT has 256 learned positions; those beyond the length of the training data are not counted in the 3 %.",
        evaluations=evaluations,
    )


_C4 = find_recipe("text/c4", "paper")


def _c4(name: str) -> dict[str, Any]:
    return differences(_C4, find_recipe(f"text/c4{name}", "paper"))


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
        sections=(
            _masked(
                _LAPTOP_ROWS,
                f"{_POSITIONS} MLP-Mixer has half the layers: its matrices along {_LENGTH} tokens would otherwise "
                "take most of its parameters. The paper's figures are of models of 110 million parameters on C4.",
            ),
            _layers(
                ("Chimera, 4 layers", {}),
                ("Chimera, 2 layers", {"num_hidden_layers": 2, "expand": 4, "num_heads": 12}),
                ("BERT, 2 layers", {"mixer": "bert", "num_hidden_layers": 2}),
                "Chimera with 2 layers has expand 4. In the paper 12, 6 and 6 layers, 70 million parameters.",
            ),
            Section(
                ABLATION,
                (
                    Row("Chimera dag", {}),
                    Row("Chimera, L = I", {"resolvent": "identity"}),
                    Row("Chimera without convolution", {"conv": False}),
                    Row("Chimera, L = I, without convolution", {"resolvent": "identity", "conv": False}),
                    Row("BERT", _BERT),
                    Row("BERT with the convolution", _BERT | {"mixer": "bert_conv"}),
                ),
                note="With L = I tokens meet in the convolution alone; without both they do not meet at all. In BERT "
                "with the convolution, queries, keys and values go through a convolution over 7 tokens, as V, B and C "
                f"do in Chimera. {_POSITIONS}",
            ),
            Section(
                f"Trained at length {_LENGTH}, tested at 512 and 2,048",
                (
                    Row("Chimera dag", {}),
                    Row("Chimera ug", {"variant": "ug"}),
                    Row("BERT, learned positions", _BERT),
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
            "cola": _small_glue("cola", 3000),
            "sst2": _small_glue("sst2", 3000),
            "mrpc": _small_glue("mrpc", 2000),
        },
    ),
    "sequences": Study(
        doc="Generated sequences of 64 tokens (ListOps: 200): associative recall, selective copying, ListOps.",
        recipe_name="text/recall",
        recipe=replace(find_recipe("text/recall"), eval_every=100_000),
        metric="accuracy",
        learning_rates=(1e-3, 3e-3),
        sweep={"epochs": 1},
        sections=(
            _sequences(
                "recall",
                {f"{4 * n} tokens, {n // 2} pairs": {"data": f"recall:{n // 2}", "length": 4 * n} for n in (32, 64)},
            ),
            _sequences("copying", {f"{n} tokens": {"length": n} for n in (128, 256)}),
            _sequences("listops", {}),
        ),
    ),
    "c4": Study(
        doc="Masked words of C4 with 110 million parameters, layers controlled with 70, and GLUE, as in the paper.",
        recipe_name="text/c4",
        recipe=_C4,
        metric="loss",
        larger_is_better=False,
        also=("accuracy",),
        learning_rates=(),
        seeds=1,
        matched=False,
        sections=(
            _masked(
                {
                    "Chimera dag": {},
                    "Chimera ug": _c4("-ug"),
                    "BERT": _c4("-bert"),
                    "FNet": _c4("-fnet"),
                    "MLP-Mixer": _c4("-mlp"),
                    "M2": _c4("-m2"),
                },
                "",
            ),
            _layers(
                ("Chimera, 12 layers", _c4("-chimera-12l")),
                ("Chimera, 6 layers", _c4("-chimera-6l")),
                ("BERT, 6 layers", _c4("-bert-6l")),
                "Chimera with 6 layers has expand 4.",
            ),
        ),
        then={
            name: _glue(
                name,
                find_recipe(f"text/glue-{name}", "paper"),
                doc=f"Fine-tuned on {TASKS[name].folder}, from the models above.",
                learning_rates=(),
                seeds=5,
            )
            for name in _TASKS
        },
    ),
}
