"""The Long Range Graph Benchmark: the authors' networks and training, and our own network on a laptop.

Learning rates, dropout and heads are of the paper's hyperparameter table; network, epochs, warm-up and batch are of the
authors' code, which gives the numbers of parameters that the paper prints. Sixteen graphs per process, four processes.
Weights are chosen on the official validation part; ``chimera eval RUN/checkpoints/best.ckpt --part test`` then reads
the test part, once.
"""

from dataclasses import replace

from chimera_lab.recipes.entry import Entry
from chimera_lab.training.graph_recipe import GraphRecipe

PEPTIDES_FUNC = GraphRecipe(
    data="peptides-func",
    part="validation",
    export="best",
    problem="multi_label_classification",
    # Chimera, 499k
    mixer="chimera",
    arrangement="sequential",
    local="gated_gcn",
    edge_messages=False,
    norm="graph",
    final_norm=False,
    gate=True,
    conv=False,
    injection="projected",
    resolvent="exact",
    normalize="column",
    gamma=1 / 1.05,
    shared_bias=True,
    init="paper",
    dt_min=0.005,
    dt_max=0.1,
    hidden_size=64,
    num_hidden_layers=8,
    state_size=64,
    num_heads=2,
    expand=1,
    mlp_ratio=2,
    pooling="mean",
    head_layers=4,
    dropout=0.1,
    # optimiser
    epochs=250,
    batch_size=64,
    lr=1e-3,
    schedule="cosine",
    warmup_epochs=5,
    betas=(0.9, 0.999),
    weight_decay=0.0,
    clip=1.0,
    eval_batch=128,
)
PEPTIDES_STRUCT = replace(PEPTIDES_FUNC, data="peptides-struct", problem="regression", num_heads=4, lr=1.5e-3)
PASCALVOC_SP = replace(
    PEPTIDES_FUNC, data="pascalvoc-sp", problem="single_label_classification", num_heads=4, lr=3.5e-3, dt_max=0.2,
    head_layers=2, dropout=0.05, batch_size=32,
)  # fmt: skip
COCO_SP = replace(PASCALVOC_SP, data="coco-sp")

# Our network, chosen on the validation part (docs/results/graphs.md): GCN+ as local layer, no feed-forward network,
# batch norms, hold injection, rows normalised, the convolution.
LAPTOP = GraphRecipe(
    data="peptides-func",
    problem="multi_label_classification",
    hidden_size=88,
    num_hidden_layers=2,
    state_size=32,
    num_heads=2,
    dropout=0.1,
    train_limit=2000,
    epochs=8,
    batch_size=32,
    lr=3e-3,
    schedule="cosine",
    warmup_epochs=1,
    betas=(0.9, 0.999),
    weight_decay=0.0,
    clip=1.0,
    eval_batch=128,
)

RECIPES = {
    "graph/peptides-func": Entry("functions of peptides, 10 labels; AP", paper=PEPTIDES_FUNC, laptop=LAPTOP),
    "graph/peptides-struct": Entry("structure of peptides, 11 targets; MAE", paper=PEPTIDES_STRUCT),
    "graph/pascalvoc-sp": Entry("superpixels of PascalVOC, 21 classes of nodes; macro F1", paper=PASCALVOC_SP),
    "graph/coco-sp": Entry("superpixels of COCO, 81 classes of nodes; macro F1", paper=COCO_SP),
}
