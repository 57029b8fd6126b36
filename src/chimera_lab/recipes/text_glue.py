"""text/glue-…: the eight tasks of the paper's table, from a model that was trained on masked words (--from RUN).

The paper gives no settings for fine-tuning. Learning rates, epochs and length at its scale are those of the authors'
code. RTE, MRPC and STS-B may start from a run of text/glue-mnli. At a laptop's scale the rates
suit models of a few million parameters, and large tasks are cut to 10,000 texts.
"""

from dataclasses import replace

from chimera_lab.recipes.entry import Entry
from chimera_lab.training.glue_recipe import GlueRecipe

#: Task: what it asks, learning rate, epochs at the paper's scale, epochs at a laptop's, texts at a laptop's.
_TASKS = {
    "cola": ("is it a sentence of English? Matthews correlation", 1e-4, 10, 5, None),
    "sst2": ("is the review good or bad? accuracy", 5e-5, 2, 3, 10_000),
    "mrpc": ("do two sentences say the same? F1", 8e-5, 10, 8, None),
    "qqp": ("do two questions ask the same? accuracy", 5e-5, 3, 3, 10_000),
    "stsb": ("how alike are two sentences? Spearman correlation", 3e-5, 10, 8, None),
    "mnli": ("does a sentence follow, or its contrary? accuracy", 1e-4, 2, 3, 10_000),
    "qnli": ("does a sentence hold the answer? accuracy", 5e-5, 7, 3, 10_000),
    "rte": ("does a sentence follow? accuracy", 1e-5, 3, 8, None),
}

_BASE = GlueRecipe(
    data="glue",
    length=128,
    epochs=3,
    batch_size=32,
    schedule="linear",
    betas=(0.9, 0.98),
    weight_decay=5e-6,
    clip=1.0,
)


def _entry(name: str, doc: str, lr: float, epochs: int, laptop_epochs: int, limit: int | None) -> Entry:
    paper = replace(_BASE, glue=name, length=256, lr=lr, epochs=epochs, warmup_epochs=0.06 * epochs, decoupled=True)
    laptop = replace(
        _BASE, glue=name, lr=5e-4, epochs=laptop_epochs, warmup_epochs=0.06 * laptop_epochs, train_limit=limit
    )
    return Entry(f"GLUE: {doc}", paper=paper, laptop=laptop)


RECIPES = {f"text/glue-{name}": _entry(name, *settings) for name, settings in _TASKS.items()}
