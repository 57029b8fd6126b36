"""Recipes that are fitted to small folders of images."""

from dataclasses import replace

import numpy as np
import pytest

from chimera_lab.recipes import find_recipe
from chimera_lab.training.own_data import fit_to_data


@pytest.fixture
def folder(tmp_path):
    from PIL import Image

    for part in ("train", "test"):
        for name in ("cat", "dog"):
            (tmp_path / part / name).mkdir(parents=True)
            for k in range(6):
                pixels = np.full((9, 12, 3), 20 * k, np.uint8)
                Image.fromarray(pixels).save(tmp_path / part / name / f"{k}.png")
    return tmp_path


def test_limits_batch_and_channels_follow_the_data(folder):
    recipe = replace(find_recipe("image/fashion-mnist"), data=str(folder))
    fitted, changes = fit_to_data(recipe, {"data"})
    assert changes == {"num_channels": 3, "train_limit": None, "batch_size": 2}
    assert fitted == replace(recipe, **changes)


def test_what_was_chosen_stays(folder):
    recipe = replace(find_recipe("image/fashion-mnist"), data=str(folder), train_limit=8, batch_size=4, num_channels=1)
    assert fit_to_data(recipe, {"train_limit", "batch_size", "num_channels"}) == (recipe, {})


def test_data_that_fit_change_nothing():
    recipe = find_recipe("image/digits")
    assert fit_to_data(recipe, ()) == (recipe, {})
