"""Presets of image models, as settings of `ChimeraImageConfig` that differ from its defaults."""

PRESETS = {
    # The size of the paper's model, 88 million parameters, for 224 × 224 pixels of ImageNet: 23 layers, as in the
    # authors' code, where the paper's table says 22.
    "chimera_image_base": {"num_heads": 12, "num_labels": 1000},
    # The size of the paper's ablations, 22 million parameters, as large as ViT-S; N follows from it.
    "chimera_image_small": {
        "hidden_size": 384, "num_hidden_layers": 22, "num_heads": 3, "state_size": 48, "num_labels": 1000,
    },
    # For small images on a laptop.
    "chimera_image_tiny": {
        "hidden_size": 192, "num_hidden_layers": 12, "num_heads": 6, "state_size": 32, "patch_size": 4,
        "image_size": 32, "num_labels": 10,
    },
    # For tests.
    "chimera_image_test": {
        "hidden_size": 32, "num_hidden_layers": 3, "num_heads": 4, "state_size": 8, "patch_size": 4,
        "image_size": 16, "num_labels": 10,
    },
}  # fmt: skip
