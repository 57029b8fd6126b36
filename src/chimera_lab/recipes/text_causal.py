"""text/pydoc-causal, text/wikitext2-causal: the next word of Python's documentation and of WikiText-2."""

from dataclasses import replace

from chimera_lab.recipes.entry import Entry
from chimera_lab.training.causal_recipe import CausalRecipe

PYDOC = CausalRecipe(
    data="pydoc",
    tokenizer="auto",
    vocab_size=2048,
    length=128,
    hidden_size=128,
    num_hidden_layers=3,
    state_size=16,
    epochs=10,
    batch_size=16,
    lr=3e-3,
    schedule="linear",
    warmup_epochs=1,
    final_lr=0.02,
    betas=(0.9, 0.98),
    weight_decay=1e-1,
    eval_every=200,
    eval_batch=64,
)

WIKITEXT2 = replace(
    PYDOC,
    data="wikitext-2",
    vocab_size=8192,
    num_hidden_layers=4,
    state_size=32,
    epochs=0,
    steps=2000,
    batch_size=32,
    lr=2e-3,
    warmup_epochs=0.0,
    warmup_steps=120,
    eval_every=500,
)

RECIPES = {
    "text/pydoc-causal": Entry("the next word of Python's documentation; nothing to download", laptop=PYDOC),
    "text/wikitext2-causal": Entry("the next word of WikiText-2, two million words of Wikipedia", laptop=WIKITEXT2),
}
