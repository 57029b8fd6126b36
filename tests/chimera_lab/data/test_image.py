"""Data sets of images: what is read, and what is said of files that are missing or broken."""

import gzip
import struct

import numpy as np
import pytest
import torch
from PIL import Image

from chimera_lab.data import image as images
from chimera_lab.data.augment import EvalTransform
from chimera_lab.data.image import Transformed, load_images
from chimera_lab.data.image_files import as_tensor, read_idx, read_image


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def idx_folder(tmp_path):
    """30 and 10 images of 6 × 5, half of the files gzipped."""
    chance = np.random.default_rng(0)
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    for prefix, count in (("train", 30), ("t10k", 10)):
        pixels = chance.integers(0, 256, (count, 6, 5), dtype=np.uint8)
        (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(pixels)))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(idx(np.arange(count, dtype=np.uint8) % 10))
    return folder


@pytest.fixture
def picture_folder(tmp_path):
    """Two classes of coloured pictures of different sizes."""
    folder = tmp_path / "pictures"
    for part, count in (("train", 3), ("val", 1)):
        for name, colour in (("red", (255, 0, 0)), ("blue", (0, 0, 255))):
            (folder / part / name).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (10 + number, 12), colour).save(folder / part / name / f"{number}.png")
    (folder / "train" / "red" / "notes.txt").write_text("not a picture")
    return folder


def test_digits_have_a_fixed_stratified_quarter_for_testing():
    data = load_images("digits", 1)
    assert (len(data.train), len(data.test), len(data.names)) == (1348, 449, 10)
    share = torch.bincount(data.test.labels) / (torch.bincount(data.test.labels) + torch.bincount(data.train.labels))
    assert torch.allclose(share, torch.full((10,), 0.25), atol=0.01)
    sample = data.test.sample(0)
    assert sample["pixel_values"].shape == (1, 8, 8)
    assert sample["pixel_values"].dtype == torch.uint8
    assert sample["labels"] == int(data.test.labels[0])
    assert torch.equal(
        load_images("digits", 3).test.sample(7)["pixel_values"][2], data.test.sample(7)["pixel_values"][0]
    )
    assert max(int(data.train.sample(i)["pixel_values"].max()) for i in range(50)) == 255


def test_idx_files_are_read_gzipped_or_not(idx_folder, monkeypatch):
    data = load_images(str(idx_folder), 1)
    assert (len(data.train), len(data.test)) == (30, 10)
    assert data.names[9] == "ankle boot"
    assert data.train.sample(13)["labels"] == 3
    pixels = np.random.default_rng(0).integers(0, 256, (30, 6, 5), dtype=np.uint8)
    assert np.array_equal(data.train.sample(13)["pixel_values"][0], pixels[13])
    monkeypatch.setattr(images, "FASHION_PACKAGE", str(idx_folder))
    assert len(load_images("fashion-mnist", 1).test) == 10


def test_folders_of_pictures_are_read(picture_folder):
    data = load_images(str(picture_folder), 3)
    assert data.names == ("blue", "red")
    assert (len(data.train), len(data.test)) == (6, 2)
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.train.sample(5)["pixel_values"].shape == (3, 12, 12)
    assert data.train.sample(5)["pixel_values"][:, 0, 0].tolist() == [255, 0, 0]
    assert load_images(str(picture_folder), 1).test.sample(0)["pixel_values"].shape == (1, 12, 10)
    seen = Transformed(data.test, EvalTransform(8, 0.5, 0.5))
    assert seen.sample(1)["pixel_values"].shape == (3, 8, 8)
    assert seen.labels.tolist() == [0, 1]


def test_classes_keep_the_numbers_that_a_model_knows(picture_folder, idx_folder):
    """A model that knows more classes, or the same in another order, is judged by their names."""
    found = load_images(str(picture_folder), 3, ("green", "red", "blue"))
    for part in (found.train, found.test):
        for n in range(len(part)):
            sample = part.sample(n)
            assert sample["labels"] == int(part.labels[n]) == (1 if sample["pixel_values"][0].any() else 2)
    assert found.names == ("green", "red", "blue")
    with pytest.raises(ValueError, match=r"has the class 'red', which the model does not know; it knows \('blue'"):
        load_images(str(picture_folder), 3, ("blue", "green"))
    numbers = load_images(str(idx_folder.rename(idx_folder.with_name("unnamed"))), 1, images.FASHION_LABELS)
    assert numbers.test.labels.tolist() == list(range(10))


def test_images_are_told_apart_by_their_files(picture_folder, idx_folder):
    from chimera_lab.data.samples import contents

    found = load_images(str(picture_folder), 3)
    before = list(contents(found.train))
    assert list(contents(load_images(str(picture_folder), 3).train)) == before
    Image.new("RGB", (10, 12), (9, 9, 9)).save(picture_folder / "train" / "red" / "0.png")
    assert list(contents(load_images(str(picture_folder), 3).train)) != before
    pixels = list(contents(load_images(str(idx_folder), 1).train))
    assert len(set(pixels)) == 32  # size, classes, 30 images


def test_missing_data_are_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "FASHION_PACKAGE", "/nowhere")
    monkeypatch.setattr(images, "FASHION_ADDRESS", "http://127.0.0.1:9")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match=r"could not be downloaded .*refused.*; .* dataset-fashion-mnist, or name"):
        load_images("fashion-mnist", 1)
    with pytest.raises(ValueError, match="there is no data set and no folder 'digit'"):
        load_images("digit", 1)
    with pytest.raises(ValueError, match="has no folder train, and no idx files; expected train/CLASS"):
        load_images(str(tmp_path), 1)
    (tmp_path / "train").mkdir()
    with pytest.raises(ValueError, match="has neither a folder test nor val"):
        load_images(str(tmp_path), 1)
    (tmp_path / "test" / "cat").mkdir(parents=True)
    with pytest.raises(ValueError, match="has 0 folders, found none: a classifier needs one folder for each of at"):
        load_images(str(tmp_path), 1)
    (tmp_path / "train" / "dog").mkdir()
    with pytest.raises(ValueError, match="has 1 folders, found dog: a classifier needs"):
        load_images(str(tmp_path), 1)
    (tmp_path / "train" / "fox").mkdir()
    with pytest.raises(ValueError, match="has the class 'cat', which"):
        load_images(str(tmp_path), 1)
    (tmp_path / "train" / "cat").mkdir()
    with pytest.raises(ValueError, match=r"there are no images in .*train: looked for .png"):
        load_images(str(tmp_path), 1)


def test_folders_of_classes_without_parts_are_explained(picture_folder):
    with pytest.raises(ValueError, match="It has the folders blue, red: if these are classes, move them into train"):
        load_images(str(picture_folder / "train"), 1)


def test_imagenet_without_a_network_names_the_folder_option(monkeypatch):
    datasets = pytest.importorskip("datasets")

    def refuse(*_, **__):
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(ValueError, match=r"ILSVRC/imagenet-1k \(ConnectionError\); .*--data FOLDER"):
        load_images("imagenet", 3)


def test_imagenet_through_datasets(monkeypatch):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
    rows = {"image": [Image.new("L", (4, 5), 7), Image.new("RGB", (6, 6))], "label": [1, 0]}
    part = datasets.Dataset.from_dict(rows, features=features)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_: {"train": part, "validation": part})
    data = load_images("imagenet", 3)
    assert data.names == ("cat", "dog")
    assert data.test.labels.tolist() == [1, 0]
    assert data.train.sample(0)["pixel_values"].shape == (3, 5, 4)
    assert (data.train.sample(0)["pixel_values"] == 7).all()


def test_broken_files_are_named(idx_folder, picture_folder):
    broken = picture_folder / "train" / "red" / "1.png"
    broken.write_bytes(broken.read_bytes()[:40])
    data = load_images(str(picture_folder), 3)
    with pytest.raises(ValueError, match=r"cannot read the image .*red/1.png: .*remove or replace it"):
        data.train.sample(4)
    with pytest.raises(ValueError, match="cannot read the image"):
        read_image(picture_folder / "train" / "red" / "notes.txt", 3)
    labels, pixels = idx_folder / "train-labels-idx1-ubyte", idx_folder / "train-images-idx3-ubyte.gz"
    with pytest.raises(ValueError, match="is not an idx file of bytes with 3 dimensions"):
        read_idx(labels, 3)
    labels.write_bytes(labels.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"should hold 30 bytes after its head, at least one, found 27"):
        load_images(str(idx_folder), 1)
    labels.write_bytes(idx(np.zeros(3, np.uint8)))
    with pytest.raises(ValueError, match="has 30 images and 3 labels of train"):
        load_images(str(idx_folder), 1)
    pixels.write_bytes(pixels.read_bytes()[:200])
    with pytest.raises(ValueError, match="is damaged"):
        load_images(str(idx_folder), 1)
    labels.unlink()
    pixels.write_bytes(gzip.compress(idx(np.zeros((3, 2, 2), np.uint8))))
    with pytest.raises(ValueError, match="has neither train-labels-idx1-ubyte nor"):
        load_images(str(idx_folder), 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected 16 bytes or more, .*, found an empty file; copy it again"),
        (bytes([0, 0, 8]), "found one that begins with the bytes 00 00 08; copy"),
        (bytes([0, 0, 8, 3, 0, 0]), "expected 16 bytes or more, the first 00 00 08 03, found one that begins with"),
        (bytes([0, 0, 8, 3]) + struct.pack(">3I", 0, 6, 5), "should hold 0 × 6 × 5 bytes after its head, at least one"),
        (bytes([0, 0, 8, 3]) + struct.pack(">3I", *[1 << 22] * 3), "4194304 × 4194304 × 4194304 bytes .* found 0"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_files_that_are_cut(content, message, pack, tmp_path):
    path = tmp_path / ("images" if pack is bytes else "images.gz")
    path.write_bytes(pack(content))
    with pytest.raises(ValueError, match=message):
        read_idx(path, 3)


# Depth


GRADIENT = np.linspace(0, 65535, 64).round().astype(np.uint16).reshape(8, 8)
DEEP = {
    "16.png": GRADIENT,
    "16.tiff": GRADIENT,
    "16.pgm": GRADIENT,
    "float.tiff": (GRADIENT / 65535).astype(np.float32),
    "12-of-16.png": GRADIENT // 16,
}


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("channels", [1, 3])
def test_images_with_more_than_8_bits_are_read_whole(name, channels, tmp_path):
    values = DEEP[name]
    Image.fromarray(values).save(tmp_path / name)
    expected = values / (65535 if values.dtype == np.uint16 else 1)
    pixels = read_image(tmp_path / name, channels)
    assert pixels.shape == (channels, 8, 8)
    np.testing.assert_allclose(pixels.numpy(), np.broadcast_to(expected, (channels, 8, 8)), atol=1e-6)
    seen = EvalTransform(8, 0.25, 0.5)(pixels)
    np.testing.assert_allclose(seen[0].numpy(), (expected - 0.25) / 0.5, atol=1e-5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (GRADIENT.astype(np.int32), "32-bit integers, .*; save it with 16 bits; remove or replace it"),
        (GRADIENT.astype(np.float32), "real numbers from 0 to 65535, expected 0 .* to 1 .*; divide them"),
        (np.full((4, 4), np.nan, np.float32), "real numbers from nan to nan, expected 0"),
        (np.full((4, 4), -1, np.float32), "real numbers from -1 to -1, expected 0"),
    ],
)
def test_images_whose_white_is_not_known_are_refused(values, message, tmp_path):
    Image.fromarray(values).save(tmp_path / "deep.tiff")
    with pytest.raises(ValueError, match=f"cannot read the image .*deep.tiff: its pixels are {message}"):
        read_image(tmp_path / "deep.tiff", 1)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"])
def test_modes_of_8_bits_are_bytes(mode, tmp_path):
    image = Image.fromarray(np.full((5, 4, 3), (200, 200, 200), np.uint8)).convert(mode)
    expected = 255 if mode == "1" else 200
    for channels in (1, 3):
        pixels = as_tensor(image, channels)
        assert pixels.dtype == torch.uint8
        assert pixels.shape == (channels, 5, 4)
        if mode != "1":  # which is dithered
            assert (pixels.int() - expected).abs().max() <= 4


@pytest.mark.parametrize("side", [10_000, 40_000])
def test_an_image_too_large_to_be_one_is_refused(side, tmp_path):
    header = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 10**6, 0, 0, 54, 40, side, side, 1, 24, 0, 0, 0, 0, 0, 0)
    (tmp_path / "large.bmp").write_bytes(header + bytes(100))
    with pytest.raises(ValueError, match=r"cannot read the image .*large.bmp: .* exceeds limit"):
        read_image(tmp_path / "large.bmp", 3)
