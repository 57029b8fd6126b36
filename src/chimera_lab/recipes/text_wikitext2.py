"""text/wikitext2: masked words of WikiText-2, two million words of Wikipedia."""

from chimera_lab.recipes.entry import Entry
from chimera_lab.training.text_recipe import TextRecipe

LAPTOP = TextRecipe(
    data="wikitext-2",
    tokenizer="auto",
    vocab_size=8192,
    length=128,
    mask=0.3,
    eval_mask=0.15,
    variant="dag",
    hidden_size=128,
    num_hidden_layers=4,
    state_size=32,
    steps=2000,
    batch_size=32,
    lr=2e-3,
    schedule="linear",
    warmup_steps=120,
    final_lr=0.02,
    betas=(0.9, 0.98),
    weight_decay=1e-5,
    eval_every=500,
    eval_batch=64,
)

RECIPES = {"text/wikitext2": Entry("masked words of WikiText-2, two million words of Wikipedia", laptop=LAPTOP)}
