"""Named text models, as settings of their configurations."""

#: Settings of `ChimeraTextConfig`, for `ChimeraForMaskedLM`.
PRESETS = {
    # The paper's: 110 million parameters, the words of bert-base-uncased.
    "chimera_text_base": {"hidden_size": 768, "num_hidden_layers": 23, "num_heads": 24, "state_size": 64},
    # The paper's control of layers and parameters: 70 million, as many layers as BERT-6L or twice as many.
    "chimera_text_70m_12l": {"hidden_size": 768, "num_hidden_layers": 12, "num_heads": 24, "state_size": 64},
    "chimera_text_70m_6l": {
        "hidden_size": 768, "num_hidden_layers": 6, "num_heads": 48, "state_size": 64, "expand": 4,
    },
    "chimera_text_small": {"hidden_size": 512, "num_hidden_layers": 8, "num_heads": 16, "state_size": 64},
    # For a laptop.
    "chimera_text_tiny": {
        "vocab_size": 8192, "hidden_size": 256, "num_hidden_layers": 6, "num_heads": 8, "state_size": 32,
    },
    # For tests.
    "chimera_text_test": {
        "vocab_size": 200, "hidden_size": 32, "num_hidden_layers": 3, "num_heads": 4, "state_size": 8,
    },
}  # fmt: skip

#: Settings of `BertConfig`, for `BertForMaskedLM`.
BERT_PRESETS = {"bert_70m_6l": {"hidden_size": 768, "num_hidden_layers": 6}}
