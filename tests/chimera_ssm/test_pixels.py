"""Pixels of any depth, and of no known range."""

import numpy as np
import pytest
import torch
from PIL import Image

import chimera_lab.baselines  # noqa: F401  (registers the baseline mixers)
from chimera_ssm import ChimeraImageProcessor

DEEP = np.linspace(0, 65535, 400).round().astype(np.uint16).reshape(20, 20)


@pytest.mark.parametrize("side", [20, 8, 32])
@pytest.mark.parametrize(
    "given",
    [
        Image.fromarray(DEEP),
        Image.fromarray((DEEP / 65535).astype(np.float32)),
        DEEP[None],
        torch.from_numpy(DEEP / 65535)[None],
        (DEEP / 257)[None],
    ],
    ids=["picture of 16 bits", "picture of real numbers", "uint16", "0 to 1", "0 to 255"],
)
def test_the_processor_keeps_the_depth_of_pixels(given, side):
    processor = ChimeraImageProcessor(num_channels=1, size={"height": side, "width": side}, do_normalize=False)
    found = processor(given, return_tensors="pt")["pixel_values"][0, 0].numpy()
    expected = np.asarray(Image.fromarray((DEEP / 65535).astype(np.float32)).resize((side, side), Image.BICUBIC))
    np.testing.assert_allclose(found, expected.clip(0, 1), atol=1e-5)
    assert side < 20 or len(np.unique(found)) >= 400


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_whole_numbers_up_to_255_are_bytes(dtype):
    processor = ChimeraImageProcessor(num_channels=1, do_resize=False, do_normalize=False)
    array = (DEEP // 257).astype(dtype)[None]
    found = processor(array, return_tensors="pt")["pixel_values"][0].numpy()
    np.testing.assert_allclose(found, array / 255, atol=1e-6)


@pytest.mark.parametrize("array", [DEEP.astype(np.int32), DEEP - 300.0, DEEP / 1.0, DEEP * np.nan, DEEP > 9])
def test_pixels_of_no_known_range_are_refused(array):
    with pytest.raises(ValueError, match=r"expected pixels of bytes, of uint16, or real numbers from 0 to 1 or to 255"):
        ChimeraImageProcessor(num_channels=1)(array[None], return_tensors="pt")
