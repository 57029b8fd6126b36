"""image/mazes: are two marked cells of a maze connected? What (I − A)⁻¹ computes. Minutes on two cores."""

from chimera_lab.recipes.entry import Entry
from chimera_lab.training.image_recipe import ImageRecipe

LAPTOP = ImageRecipe(
    data="mazes:12",
    image_size=12,
    patch_size=1,
    num_channels=3,
    topology="undirected",
    gamma=0.99,
    conv_window="grid",
    hidden_size=40,
    num_hidden_layers=2,
    state_size=16,
    num_heads=4,
    epochs=8,  # 96.7 % of held-out mazes with a width of 32; 85.5 % after 8 epochs of 6,000 mazes
    batch_size=32,
    lr=3e-3,
    warmup_epochs=1,
    weight_decay=0.01,
)

RECIPES = {"image/mazes": Entry("are two cells of a maze connected? nothing to download", laptop=LAPTOP)}
