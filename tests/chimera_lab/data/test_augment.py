"""Augmentations: what they do to one image, that they are each sample's own, and the proportions of mixtures."""

import pytest
import torch
from PIL import Image

from chimera_lab.data import augment
from chimera_lab.data.augment import Augmentation, EvalTransform, mix_batch
from chimera_lab.data.image_files import as_tensor
from chimera_lab.data.random import seeded

FULL = Augmentation(16, 0.4, 0.2, 0.3, True, 2, 9, 0.5, 2, 0.25)


def picture(height=24, width=18, channels=3):
    with seeded("picture"):
        return torch.randint(0, 256, (channels, height, width), dtype=torch.uint8)


@pytest.mark.parametrize("channels", [1, 3])
def test_every_image_gets_its_own_randomness_and_always_the_same(channels):
    image = picture(channels=channels)

    def draw(index):
        with seeded(0, "sample", 0, index):
            return FULL(image)

    results = [draw(index) for index in range(12)]
    assert all(result.shape == (channels, 16, 16) and result.isfinite().all() for result in results)
    assert all(torch.equal(draw(index), results[index]) for index in (11, 3))
    assert all(not torch.equal(results[0], other) for other in results[1:])


def test_without_options_nothing_is_random():
    image = picture(16, 16)
    expected = (image / 255 - 0.4) / 0.2
    torch.testing.assert_close(Augmentation(16, 0.4, 0.2)(image), expected)
    torch.testing.assert_close(EvalTransform(16, 0.4, 0.2)(image), expected)


def test_resizing_is_as_by_pillow():
    image = picture(40, 30)
    resized = augment.resize(augment.to_float(image), 16, 12)
    pil = Image.fromarray(image.permute(1, 2, 0).numpy()).resize((12, 16), Image.Resampling.BICUBIC)
    torch.testing.assert_close(resized, as_tensor(pil, 3) / 255, atol=1.5 / 255, rtol=0)


def test_the_centre_is_kept_in_evaluation():
    image = torch.zeros(1, 20, 40, dtype=torch.uint8)
    image[:, 5:15, 15:25] = 255
    assert (EvalTransform(10, 0, 1, crop=0.5)(image) > 0.99).all()
    assert EvalTransform(7, 0, 1, crop=0.9)(image).shape == (1, 7, 7)


def test_shifts_move_all_pixels_by_at_most_so_many():
    image = torch.zeros(1, 9, 9)
    image[0, 4, 4] = 1
    places = set()
    for index in range(200):
        with seeded(index):
            places.add(tuple(augment.random_shift(image, 1)[0].nonzero()[0].tolist()))
    assert places == {(row, column) for row in (3, 4, 5) for column in (3, 4, 5)}


def test_crops_have_the_area_asked_for():
    image = torch.arange(32 * 32).view(1, 32, 32)
    for index in range(100):
        with seeded(index):
            crop = augment.random_crop(image, 0.25)
        height, width = crop.shape[-2:]
        assert 0.2 < height * width / 1024 <= 1
        assert 0.7 < height / width < 1.4
        assert torch.equal(crop, image[:, crop[0, 0, 0] // 32 :, crop[0, 0, 0] % 32 :][:, :height, :width])
    narrow = torch.zeros(1, 1, 1000)
    with seeded(0):
        assert augment.random_crop(narrow, 0.9).shape == narrow.shape


def test_half_of_the_images_are_mirrored():
    flip = Augmentation(8, 0, 1, flip=True)
    image = picture(8, 8)
    mirrored = 0
    for index in range(200):
        with seeded(index):
            mirrored += torch.equal(flip(image), image.flip(-1) / 255)
    assert 70 < mirrored < 130


def test_erasing_puts_noise_into_a_rectangle():
    image, erased = torch.full((3, 20, 20), 7.0), 0
    for index in range(100):
        with seeded(index):
            result = augment.random_erasing(image, 0.25)
        changed = (result != 7).all(0)
        if changed.any():
            erased += 1
            rows, columns = (changed.any(axis).nonzero().flatten() for axis in (1, 0))
            assert changed.sum() == len(rows) * len(columns)
            assert 0 < changed.float().mean() < 0.45
    assert 10 < erased < 42


def test_randaugment_changes_images_within_their_range():
    image, changed = augment.to_float(picture(16, 16)), 0
    for index in range(40):
        with seeded(index):
            result = augment.rand_augment(image, 9, 0.5, 2)
        assert 0 <= result.min() <= result.max() <= 1
        changed += not torch.equal(result, image)
    assert 20 < changed < 40  # with two operations, a quarter of the images gets none


@pytest.mark.parametrize(("mixup", "cutmix"), [(0.8, 0.0), (0.0, 1.0), (0.8, 0.1)])
def test_mixtures_keep_images_and_targets_in_proportion(mixup, cutmix):
    images = torch.stack([torch.full((1, 12, 10), float(k)) for k in range(4)])
    targets = torch.eye(4)
    kinds = set()
    for index in range(60):
        with seeded(index):
            mixed, soft = mix_batch(images, targets, mixup, cutmix)
        torch.testing.assert_close(soft.sum(1), torch.ones(4))
        torch.testing.assert_close(mixed.mean((1, 2, 3)), soft @ torch.arange(4.0), atol=1e-5, rtol=1e-5)
        whole = all(value in (0.0, 1.0, 2.0, 3.0) for value in mixed.flatten().tolist())
        kinds.add("cutmix" if whole else "mixup")
    assert ("mixup" in kinds) == bool(mixup)
    assert ("cutmix" in kinds) == bool(cutmix)
    assert images[1].eq(1).all()


def test_without_mixtures_the_batch_is_itself():
    images, targets = torch.rand(2, 1, 4, 4), torch.eye(2)
    mixed, soft = mix_batch(images, targets, 0, 0)
    assert mixed is images
    assert soft is targets
