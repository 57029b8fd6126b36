"""Presets: settings of `ChimeraTextConfig`, and of `ChimeraCausalConfig`, that differ from their defaults."""

PRESETS = {
    # The paper's model: 110 million parameters, the vocabulary of bert-base-uncased.
    "chimera_text_base": {"num_heads": 24},
    # The paper's control of depth and size: 70 million parameters, with 6 layers like BERT-6L, or 12.
    "chimera_text_70m_12l": {"num_hidden_layers": 12, "num_heads": 24},
    "chimera_text_70m_6l": {"num_hidden_layers": 6, "num_heads": 48, "expand": 4},
    "chimera_text_small": {"hidden_size": 512, "num_hidden_layers": 8, "num_heads": 16},
    # For a laptop.
    "chimera_text_tiny": {
        "vocab_size": 8192, "hidden_size": 256, "num_hidden_layers": 6, "num_heads": 8, "state_size": 32,
    },
    # For tests.
    "chimera_text_test": {
        "vocab_size": 200, "hidden_size": 32, "num_hidden_layers": 3, "num_heads": 4, "state_size": 8,
    },
}  # fmt: skip

CAUSAL_PRESETS = {
    # The sizes of Mamba-2 with 130 million parameters.
    "chimera_causal_base": {},
    # For a laptop.
    "chimera_causal_tiny": {
        "vocab_size": 8192, "hidden_size": 256, "num_hidden_layers": 6, "num_heads": 8, "state_size": 32,
    },
    # For tests.
    "chimera_causal_test": {
        "vocab_size": 200, "hidden_size": 32, "num_hidden_layers": 3, "num_heads": 4, "state_size": 8,
    },
}  # fmt: skip
