"""Mazes: labels are recomputed by breadth-first search."""

from collections import deque

import pytest
import torch

from chimera_lab.data.image import load_images
from chimera_lab.data.mazes import APART, WALLS, connected_regions, draw_mazes, mazes

pytest.importorskip("scipy")


def is_connected(free, start, end):
    reached, queue = {start}, deque([start])
    while queue:
        row, column = queue.popleft()
        for cell in (row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1):
            inside = 0 <= cell[0] < free.shape[0] and 0 <= cell[1] < free.shape[1]
            if inside and free[cell] and cell not in reached:
                reached.add(cell)
                queue.append(cell)
    return end in reached


@pytest.mark.parametrize("size", [4, 7, 12, 24])
def test_labels_tell_whether_the_marked_cells_are_connected(size):
    pictures, labels = draw_mazes(size, 60, "train")
    assert pictures.shape == (60, 3, size, size)
    for picture, label in zip(pictures, labels, strict=True):
        red, green, blue = picture
        assert torch.equal(green, blue)
        free, marked = red == 255, (red == 255) & (green == 0)
        start, end = map(tuple, marked.nonzero().tolist())
        assert abs(start[0] - end[0]) + abs(start[1] - end[1]) >= APART
        assert is_connected(free, start, end) == bool(label)


def test_both_labels_and_walls_have_their_frequencies():
    pictures, labels = draw_mazes(12, 1000, "train")
    assert labels.sum() == 500
    assert (pictures[:, 0] == 0).float().mean() == pytest.approx(WALLS, abs=0.01)


def test_mazes_depend_on_their_arguments_alone():
    pictures, labels = draw_mazes(9, 20, "train")
    torch.manual_seed(5)
    again, same = draw_mazes(9, 20, "train")
    assert torch.equal(pictures, again)
    assert torch.equal(labels, same)
    assert not torch.equal(pictures, draw_mazes(9, 20, "test")[0])


def test_regions_do_not_reach_from_one_maze_into_the_next():
    free = torch.ones(2, 3, 3, dtype=torch.bool)
    free[0, 1] = False
    assert connected_regions(free).unique().tolist() == [0, 1, 2, 3]


def test_mazes_are_a_data_set_of_images():
    images = load_images("mazes:6", 3)
    assert images.names == ("separated", "connected")
    assert len(images.train) == 20_000
    assert images.train.sample(1)["pixel_values"].shape == (3, 6, 6)
    assert images.train.sample(1)["labels"] == 1


@pytest.mark.parametrize("name", ["mazes:", "mazes:3", "mazes:1000", "mazes:a"])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="mazes are named mazes:SIZE"):
        mazes(name)


def test_grey_mazes_are_refused():
    with pytest.raises(ValueError, match="use num_channels 3, found 1"):
        load_images("mazes:6", 1)
