"""image/fashion-mnist: articles of clothing, 28 × 28 pixels, a fifth of the training images."""

from chimera_lab.recipes.entry import Entry
from chimera_lab.training.image_recipe import ImageRecipe

LAPTOP = ImageRecipe(
    data="fashion-mnist",
    image_size=28,
    patch_size=4,
    num_channels=1,
    mean=0.286,
    std=0.353,
    hidden_size=128,
    num_hidden_layers=6,
    state_size=32,
    train_limit=12_000,
    epochs=6,
    batch_size=64,
    lr=2e-3,
    warmup_epochs=0.5,
    weight_decay=0.05,
    ema=0.999,
    flip=True,
    label_smoothing=0.1,
    eval_batch=512,
)

RECIPES = {"image/fashion-mnist": Entry("12,000 images of clothing, 28 × 28 pixels", laptop=LAPTOP)}
