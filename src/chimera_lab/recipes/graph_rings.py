"""graph/rings: what colour has the node on the other side of the ring? A task of distance, of nothing else."""

from chimera_lab.recipes.entry import Entry
from chimera_lab.training.graph_recipe import GraphRecipe

LAPTOP = GraphRecipe(
    data="rings:1-24",
    mixer="chimera",
    hidden_size=40,
    num_hidden_layers=3,
    state_size=8,
    num_heads=2,
    gamma=0.95,
    epochs=12,
    batch_size=32,
    lr=3e-3,
    warmup_epochs=0.5,
    weight_decay=0.0,
)

RECIPES = {"graph/rings": Entry("a message carried across a ring, up to 24 hops; nothing to download", laptop=LAPTOP)}
