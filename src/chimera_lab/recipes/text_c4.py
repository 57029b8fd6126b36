"""text/c4: masked words of C4 as in the paper (its table of hyperparameters of masked language modelling).

Injection by the step and initial values are the paper's; our own defaults are others. Where the table leaves a choice:
24 heads of 64 features (it counts the 12 of width 768, before expansion); warm-up over 6 % of the steps and decay to
0.02 of the peak are those of the M2 recipe that the paper says it follows. The tokens of 70,000 steps take 73 GB in the
cache.
"""

from dataclasses import replace

from chimera_lab.recipes.entry import Entry
from chimera_lab.training.text_recipe import TextRecipe

STEPS, BATCH, LENGTH = 70_000, 4096, 128

PAPER = TextRecipe(
    data="c4",
    tokenizer="bert-base-uncased",
    length=LENGTH,
    max_tokens=STEPS * BATCH * (LENGTH - 2),
    mask=0.3,
    eval_mask=0.15,
    # Chimera, 110M
    mixer="chimera",
    variant="dag",
    hidden_size=768,
    num_hidden_layers=23,
    num_heads=24,
    state_size=64,
    injection="step",
    init="paper",
    # optimiser
    steps=STEPS,
    batch_size=BATCH,
    micro_batch=128,
    lr=8e-4,
    schedule="linear",
    warmup_steps=4200,
    final_lr=0.02,
    betas=(0.9, 0.98),
    weight_decay=1e-5,
    decoupled=True,
    eval_every=2000,
    log_every=50,
)

UG = replace(PAPER, variant="ug")

# BERT-B, 110M: its own column of the table.
BERT = replace(PAPER, mixer="bert", num_hidden_layers=12, lr=5e-4, positions=512)

# FNet as in its own paper: BERT with the Fourier transform for attention; deeper, for the table's 112M.
FNET = replace(BERT, mixer="fnet", num_hidden_layers=18)

# MLP-Mixer and M2 in Chimera's block, as large as in the table: 112M and 116M.
MLP = replace(PAPER, mixer="mlp", num_hidden_layers=18, lr=5e-4)
M2 = replace(PAPER, mixer="m2", hidden_size=960, num_hidden_layers=13, lr=5e-4)

# Layers and parameters controlled, 70M, with two fifths of the samples.
_CONTROL = {"steps": 24_000, "warmup_steps": 1440, "max_tokens": 24_000 * BATCH * (LENGTH - 2)}
CHIMERA_12L = replace(PAPER, num_hidden_layers=12, **_CONTROL)
CHIMERA_6L = replace(PAPER, num_hidden_layers=6, expand=4, num_heads=48, **_CONTROL)
BERT_6L = replace(BERT, num_hidden_layers=6, **_CONTROL)

RECIPES = {
    "text/c4": Entry("C4 in blocks of 128 tokens, Chimera on two lines with 110M parameters", paper=PAPER),
    "text/c4-ug": Entry("the same on the undirected line", paper=UG),
    "text/c4-bert": Entry("the same with BERT-B, by its own column of the paper's table", paper=BERT),
    "text/c4-fnet": Entry("the same with FNet of 112M", paper=FNET),
    "text/c4-mlp": Entry("the same with MLP-Mixer of 112M", paper=MLP),
    "text/c4-m2": Entry("the same with Monarch Mixer of 116M", paper=M2),
    "text/c4-chimera-12l": Entry("the paper's control of layers: 12 layers, 70M", paper=CHIMERA_12L),
    "text/c4-chimera-6l": Entry("the paper's control of layers: 6 layers with expand 4, 70M", paper=CHIMERA_6L),
    "text/c4-bert-6l": Entry("the paper's control of layers: BERT with 6 layers, 70M", paper=BERT_6L),
}
