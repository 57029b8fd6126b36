"""Models of each kind, untrained and saved as one saves them, and an image."""

import numpy as np
import pytest
import torch

import chimera_ssm as chimera

SENTENCE = "return a [MASK] of strings sorted by number"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *SENTENCE.replace("[MASK] ", "").split(), "sort", "##ed"]


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    from PIL import Image
    from transformers import BertTokenizer

    folder = tmp_path_factory.mktemp("saved")
    torch.manual_seed(0)
    image = chimera.create_model("chimera_image_test", patch_size=2, num_channels=1, image_size=8)
    image.save_pretrained(folder / "image")
    chimera.ChimeraImageProcessor.for_model(image.config).save_pretrained(folder / "image")
    pixels = np.zeros((8, 8), np.uint8)
    pixels[2:7, 3:5] = 255
    Image.fromarray(pixels).save(folder / "one.png")
    text = chimera.create_model("chimera_text_test", vocab_size=len(WORDS), num_hidden_layers=2)
    text.save_pretrained(folder / "text")
    BertTokenizer(vocab={word: k for k, word in enumerate(WORDS)}).save_pretrained(folder / "text")
    chimera.create_model("chimera_graph_test").save_pretrained(folder / "graph")
    return folder
