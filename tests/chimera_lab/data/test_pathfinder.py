"""Pathfinder: labels are recomputed from pictures in which the gaps between dashes are closed."""

import numpy as np
import pytest
import torch

from chimera_lab.data import pathfinder as module
from chimera_lab.data.image import load_images
from chimera_lab.data.pathfinder import CLEARANCE, DASH, PITCH, SIDE, draw_pathfinder, pathfinder, picture, scene

ndimage = pytest.importorskip("scipy.ndimage")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def regions(dashes, dots, reach, size=512):
    """Numbers of the regions of the two dots when everything grows by ``reach``, and the number of regions."""
    distance = ndimage.distance_transform_edt(picture(dashes, dots, size, oversample=1) == 0)
    found, count = ndimage.label(distance < reach * size / SIDE)
    return [found[int(y * size / SIDE), int(x * size / SIDE)] for x, y in dots], count


@pytest.mark.parametrize("number", range(24))
def test_labels_tell_whether_one_path_connects_the_dots(number):
    between_dashes, between_paths = PITCH - DASH, CLEARANCE
    (a, b), count = regions(*scene("train", number), (between_dashes + between_paths) / 4)
    assert (a == b) == bool(number % 2)
    assert count == 2 + module.DISTRACTORS


def test_distances_of_the_dots_do_not_give_the_label_away():
    distances = np.array([np.hypot(*np.subtract(*scene("train", number)[1])) for number in range(300)])
    apart, together = distances[::2].mean(), distances[1::2].mean()
    assert abs(apart - together) < distances.std() / 2


def test_pictures_depend_on_their_arguments_alone():
    pictures, labels = draw_pathfinder(32, 12, "train")
    assert pictures.shape == (12, 32, 32)
    assert pictures.dtype == torch.uint8
    assert labels.tolist() == 6 * [0, 1]
    assert torch.equal(pictures[5], torch.from_numpy(picture(*scene("train", 5), 32).copy()))
    assert not torch.equal(pictures, draw_pathfinder(32, 12, "test")[0])


def test_pictures_are_drawn_once(monkeypatch):
    pictures, _ = draw_pathfinder(48, 4, "train")
    monkeypatch.setattr(module, "picture", None)
    assert torch.equal(draw_pathfinder(48, 4, "train")[0], pictures)


@pytest.mark.parametrize("size", [48, 64])
def test_other_sizes_show_the_same_scene(size):
    large = torch.from_numpy(picture(*scene("train", 3), 128).copy()).float()
    small = torch.from_numpy(picture(*scene("train", 3), size).copy()).float()
    pooled = torch.nn.functional.adaptive_avg_pool2d(large[None], 16)[0]
    small = torch.nn.functional.adaptive_avg_pool2d(small[None], 16)[0]
    assert torch.corrcoef(torch.stack([pooled.flatten(), small.flatten()]))[0, 1] > 0.95


def test_pathfinder_is_a_data_set_of_images(monkeypatch):
    monkeypatch.setattr(module, "TRAIN", 6)
    monkeypatch.setattr(module, "TEST", 4)
    images = load_images("pathfinder:32", 1)
    assert images.names == ("separated", "connected")
    assert (len(images.train), len(images.test)) == (6, 4)
    assert images.train.sample(1)["pixel_values"].shape == (1, 32, 32)
    assert images.train.sample(1)["labels"] == 1


@pytest.mark.parametrize("name", ["pathfinder:", "pathfinder:8", "pathfinder:1000", "pathfinder:a"])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="named pathfinder:SIZE"):
        pathfinder(name)
