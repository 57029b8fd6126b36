"""Superpixels: regions, their graph against loops over pixels, folders of images."""

import os

import numpy as np
import pytest
import torch

from chimera_lab.data.graph import load_graphs
from chimera_lab.data.superpixels import region_classes, region_graph, slic

pytest.importorskip("skimage")
Image = pytest.importorskip("PIL.Image")


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def china():
    """A photograph, 60 × 90."""
    from sklearn.datasets import load_sample_image

    return load_sample_image("china.jpg")[20:380, 5:635].reshape(60, 6, 90, 7, 3).mean((1, 3)).astype(np.uint8)


def uneven(pixels, regions):
    """Mean square of what is left of the pixels without the mean of their region."""
    means = np.stack([pixels[regions == r].mean(0) for r in range(regions.max() + 1)])
    return np.square(pixels - means[regions]).mean()


def test_regions_are_connected_cover_all_and_follow_colours(china):
    from scipy.ndimage import label

    pixels = china / 255
    regions = slic(pixels, 60)
    count = regions.max() + 1
    assert regions.shape == (60, 90)
    assert 30 <= count <= 90
    assert sorted(np.unique(regions)) == list(range(count))
    assert all(label(regions == r)[1] == 1 for r in range(count))
    cells = np.arange(60)[:, None] // 10 * 10 + np.arange(90) // 9
    assert uneven(pixels, regions) < 0.8 * uneven(pixels, cells)


def test_two_halves_are_found_exactly():
    pixels = np.zeros((12, 20, 3))
    pixels[:, 13:] = 1
    regions = slic(pixels, 2)
    assert all(len(np.unique(regions[:, half])) == 1 for half in (slice(13), slice(13, None)))
    assert regions[0, 0] != regions[0, -1]
    assert slic(np.zeros((1, 1, 3)), 5).tolist() == [[0]]


def test_features_against_loops():
    rng = np.random.default_rng(0)
    pixels, regions = (
        rng.random((5, 6, 3)),
        np.repeat(np.array([[0, 0, 1], [2, 2, 1]]), 2, axis=1).repeat([2, 3], axis=0),
    )
    x, edges, edge_attr = region_graph(pixels, regions)
    for r in range(3):
        own, place = pixels[regions == r], np.argwhere(regions == r) / (5, 6)
        np.testing.assert_allclose(
            x[r], np.concatenate([own.mean(0), own.std(0), own.min(0), own.max(0), place.mean(0)]), rtol=1e-5
        )
    assert edges.T.tolist() == [[0, 1], [0, 2], [1, 2], [1, 0], [2, 0], [2, 1]]
    steps = {}
    for i in range(5):
        for j in range(6):
            for k, l in ((i + 1, j), (i, j + 1)):
                if k < 5 and l < 6 and regions[i, j] != regions[k, l]:
                    pair = tuple(sorted((regions[i, j], regions[k, l])))
                    steps.setdefault(pair, []).append(np.abs(pixels[i, j] - pixels[k, l]).mean())
    for (a, b), found in zip(edges.T.tolist(), edge_attr, strict=True):
        here = steps[min(a, b), max(a, b)]
        np.testing.assert_allclose(found, [np.mean(here), len(here) / np.sqrt(10)], rtol=1e-5)


def test_classes_of_regions():
    regions = np.array([[0, 0, 0, 1, 1, 1]])
    assert region_classes(np.array([[3, 3, 0, 255, 255, 0]]), regions).tolist() == [3, -1]


def save(pixels, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.ascontiguousarray(pixels)).save(path)


def test_folders_of_classes_and_of_masks(tmp_path, china):
    for part in ("train", "test"):
        for name in ("left", "right"):
            save(china[:30, :40] if name == "left" else china[30:, 50:], tmp_path / "classes" / part / name / "a.png")
        save(china, tmp_path / "masks" / part / "images" / "a.png")
        mask = np.zeros(china.shape[:2], np.uint8)
        mask[20:], mask[:, 80:] = 2, 255
        save(mask, tmp_path / "masks" / part / "masks" / "a.png")
    graphs = load_graphs(f"superpixels:{tmp_path / 'classes'}", segments=20)
    assert (graphs.level, graphs.num_labels, graphs.node_features, graphs.edge_features) == ("graph", 2, 14, 2)
    assert [int(graphs.train.sample(i)["labels"]) for i in range(2)] == [0, 1]
    nodes = load_graphs(f"superpixels:{tmp_path / 'masks'}", segments=30)
    assert (nodes.level, nodes.num_labels) == ("node", 3)
    assert set(nodes.test.sample(0)["labels"].tolist()) == {-1, 0, 2}
    again = load_graphs(f"superpixels:{tmp_path / 'masks'}", segments=30)
    assert torch.equal(again.train.sample(0)["x"], nodes.train.sample(0)["x"])
    assert not list((tmp_path / "masks").rglob("*.npz"))
    assert len(list((tmp_path / "cache" / "chimera" / "graphs").glob("superpixels-*.npz"))) == 4


def test_images_that_changed_are_noticed_whatever_their_dates(tmp_path, china):
    for part in ("train", "test"):
        save(china[:30, :40], tmp_path / part / "left" / "a.bmp")
    before = load_graphs(f"superpixels:{tmp_path}", segments=20).train.sample(0)["x"]
    file = tmp_path / "train" / "left" / "a.bmp"
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    save(255 - china[:30, :40], file)
    os.utime(file, ns=times)
    assert not torch.equal(load_graphs(f"superpixels:{tmp_path}", segments=20).train.sample(0)["x"], before)


def test_images_of_16_bits_have_the_same_superpixels(tmp_path, china):
    grey = china[..., 0]
    for name, pixels in (("8", grey), ("16", grey.astype(np.uint16) * 257)):
        for part in ("train", "test"):
            save(pixels, tmp_path / name / part / "a" / "1.png")
    graphs = [load_graphs(f"superpixels:{tmp_path / name}", segments=20).train.sample(0) for name in ("8", "16")]
    assert torch.equal(graphs[0]["edge_index"], graphs[1]["edge_index"])
    torch.testing.assert_close(graphs[0]["x"], graphs[1]["x"], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("dtype", "value"), [(np.int32, -1), (np.int32, 1 << 30), (np.float32, 1)])
def test_bad_masks(dtype, value, tmp_path, china):
    for part in ("train", "test"):
        save(china, tmp_path / part / "images" / "a.png")
        save(np.full(china.shape[:2], value, dtype), tmp_path / part / "masks" / "a.tiff")
        (tmp_path / part / "masks" / "a.tiff").rename(tmp_path / part / "masks" / "a.png")
    with pytest.raises(ValueError, match=r"a.png should hold (classes from 0 to 65,535, found|a class for each of)"):
        load_graphs(f"superpixels:{tmp_path}", segments=10)


def test_masks_without_any_class_are_refused(tmp_path, china):
    for part in ("train", "test"):
        save(china, tmp_path / part / "images" / "a.png")
        save(np.full(china.shape[:2], 255, np.uint8), tmp_path / part / "masks" / "a.png")
    with pytest.raises(ValueError, match="a part of the data has no labels: the class of every node is unknown"):
        load_graphs(f"superpixels:{tmp_path}", segments=10)


def test_bad_folders(tmp_path, china):
    def refused(message):
        with pytest.raises(ValueError, match=message):
            load_graphs(f"superpixels:{tmp_path / 'data'}")

    refused("there is no folder")
    (tmp_path / "data" / "train").mkdir(parents=True)
    refused(r"should have train/ and test/ or val/")
    (tmp_path / "data" / "val").mkdir()
    refused("there are no images in .*train")
    save(china, tmp_path / "data" / "train" / "a" / "1.png")
    (tmp_path / "data" / "val" / "b").mkdir()
    refused("val has the class 'b', which the training part does not have")
    (tmp_path / "data" / "val" / "b").rmdir()
    (tmp_path / "data" / "train" / "a" / "2.png").write_text("no image")
    (tmp_path / "data" / "val" / "a").mkdir()
    refused(r"cannot read the image .*2\.png")
    (tmp_path / "data" / "train" / "masks").mkdir()
    save(china, tmp_path / "data" / "train" / "images" / "1.png")
    refused(r"has no mask: .*masks.1\.png is not there")
    save(china, tmp_path / "data" / "train" / "masks" / "1.png")
    refused(r"should hold a class for each of \(60, 90\) pixels, found uint8 \(60, 90, 3\)")
