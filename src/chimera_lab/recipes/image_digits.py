"""image/digits: scikit-learn's digits, 8 × 8 pixels. Nothing to download, under two minutes on two cores."""

from chimera_lab.recipes.entry import Entry
from chimera_lab.training.image_recipe import ImageRecipe

LAPTOP = ImageRecipe(
    data="digits",
    image_size=8,
    patch_size=1,
    num_channels=1,
    hidden_size=64,
    num_hidden_layers=3,
    state_size=16,
    epochs=15,
    batch_size=64,
    lr=3e-3,
    warmup_epochs=2,
    weight_decay=0.05,
    ema=0.99,
    shift=1,
    label_smoothing=0.1,
)

RECIPES = {"image/digits": Entry("scikit-learn's digits, 8 × 8 pixels; nothing to download", laptop=LAPTOP)}
