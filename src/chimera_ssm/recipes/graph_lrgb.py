"""The Long Range Graph Benchmark as in the paper (its hyperparameter table), and Peptides-func on a laptop.

The table says neither how the learning rate falls nor how it warms up; the paper says that it follows GraphGPS, whose
recipes have a cosine, ten epochs of warm-up and gradients clipped at 1. The optimiser is Adam: no weight decay.
"""

from dataclasses import replace

from chimera_ssm.recipes.entry import Entry
from chimera_ssm.training.graph_recipe import GraphRecipe

PEPTIDES_FUNC = GraphRecipe(
    data="peptides-func",
    problem="multi_label_classification",
    # Chimera, 493k
    mixer="chimera",
    local="gcn",
    resolvent="exact",
    hidden_size=64,
    num_hidden_layers=8,
    state_size=96,
    num_heads=2,
    expand=1,
    dropout=0.1,
    # optimiser
    epochs=200,
    batch_size=64,
    lr=1e-3,
    schedule="cosine",
    warmup_epochs=10,
    betas=(0.9, 0.999),
    weight_decay=0.0,
    clip=1.0,
    eval_batch=128,
)
PEPTIDES_STRUCT = replace(
    PEPTIDES_FUNC, data="peptides-struct", problem="regression", state_size=80, num_heads=4, lr=1.5e-3,
)  # fmt: skip
PASCALVOC_SP = replace(
    PEPTIDES_FUNC, data="pascalvoc-sp", problem="single_label_classification", state_size=64, num_heads=4, lr=3.5e-3,
    dropout=0.05, batch_size=32,
)  # fmt: skip
COCO_SP = replace(PASCALVOC_SP, data="coco-sp")

# Batch norms, as GCN, GatedGCN and GPS have them: with layer norms Chimera learns nothing in the first three epochs.
LAPTOP = replace(
    PEPTIDES_FUNC, norm="batch", num_hidden_layers=4, state_size=32, train_limit=2000, epochs=8, batch_size=32,
    warmup_epochs=1,
)  # fmt: skip

RECIPES = {
    "graph/peptides-func": Entry("functions of peptides, 10 labels; AP", paper=PEPTIDES_FUNC, laptop=LAPTOP),
    "graph/peptides-struct": Entry("structure of peptides, 11 targets; MAE", paper=PEPTIDES_STRUCT),
    "graph/pascalvoc-sp": Entry("superpixels of PascalVOC, 21 classes of nodes; macro F1", paper=PASCALVOC_SP),
    "graph/coco-sp": Entry("superpixels of COCO, 81 classes of nodes; macro F1", paper=COCO_SP),
}
