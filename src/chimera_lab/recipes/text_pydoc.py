"""text/pydoc: masked words of Python's own documentation. Nothing to download, a few minutes on two cores."""

from chimera_lab.recipes.entry import Entry
from chimera_lab.training.text_recipe import TextRecipe

LAPTOP = TextRecipe(
    data="pydoc",
    tokenizer="auto",
    vocab_size=2048,
    length=128,
    mask=0.3,
    eval_mask=0.15,
    variant="dag",
    hidden_size=128,
    num_hidden_layers=3,
    state_size=16,
    epochs=30,
    batch_size=16,
    lr=3e-3,
    schedule="linear",
    warmup_epochs=2,
    final_lr=0.02,
    betas=(0.9, 0.98),
    weight_decay=1e-2,
    eval_every=270,
    eval_batch=64,
)

RECIPES = {"text/pydoc": Entry("masked words of Python's documentation; nothing to download", laptop=LAPTOP)}
