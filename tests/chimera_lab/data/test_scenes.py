"""Scenes: digits on photographs, and the classes of their superpixels."""

import numpy as np
import pytest

from chimera_lab.data import scenes as module
from chimera_lab.data.graph import load_graphs
from chimera_lab.data.scenes import Material, scene

ndimage = pytest.importorskip("scipy.ndimage")
pytest.importorskip("skimage")
pytest.importorskip("sklearn")


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def materials():
    return {part: Material.of(part) for part in ("train", "test")}


def test_parts_share_neither_digits_nor_pixels(materials):
    train, test = materials.values()
    assert len(train.digits) + len(test.digits) == 1797
    for a, b in zip(train.photographs, test.photographs, strict=True):
        assert a.shape[1] + b.shape[1] == 640


@pytest.mark.parametrize("number", range(4))
def test_pixels_have_the_class_of_the_digit_that_covers_them(materials, number):
    """A digit is found by sliding every digit of the material over the mask."""
    train = materials["train"]
    pixels, mask = scene(train, number)
    assert pixels.shape == (module.HEIGHT, module.WIDTH, 3)
    assert 0 <= pixels.min() <= pixels.max() <= 1
    regions, count = ndimage.label(mask, np.ones((3, 3)))
    assert count >= 1
    for place in ndimage.find_objects(regions):
        shape = mask[place] > 0
        (known,) = set(np.unique(mask[place])) - {module.BACKGROUND}
        drawn = (ndimage.zoom(d, 4, order=1) > module.INK for d in train.digits[train.classes == known - 1])
        cropped = (d[np.ix_(d.any(1).nonzero()[0], d.any(0).nonzero()[0])] for d in drawn)
        assert any(d.shape == shape.shape and (d == shape).all() for d in cropped)


def test_scenes_depend_on_their_arguments_alone(materials):
    (a, classes), (b, same) = (scene(materials["train"], 5) for _ in range(2))
    assert np.array_equal(a, b)
    assert np.array_equal(classes, same)
    assert not np.array_equal(a, scene(materials["test"], 5)[0])


def test_scenes_are_a_data_set_of_graphs(monkeypatch):
    monkeypatch.setattr(module, "TRAIN", 6)
    monkeypatch.setattr(module, "TEST", 2)
    found = load_graphs("scenes", segments=120)
    assert (len(found.train), len(found.test)) == (6, 2)
    sample = found.train.sample(0)
    assert 80 <= len(sample["x"]) <= 150
    assert len(sample["labels"]) == len(sample["x"])
    assert (sample["labels"] > 0).any()
