"""The task of images: its loss, its metrics, the processor it saves."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from chimera_lab.data.image_files import as_tensor
from chimera_lab.training.kinds import create_task
from tests.chimera_lab.training.tiny import TINY


class Fixed(torch.nn.Module):
    """Gives the logits it was given, whatever it sees."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, pixel_values):
        return SimpleNamespace(logits=self.logits)


def batch(labels):
    return {"pixel_values": torch.zeros(len(labels), 1, 8, 8), "labels": torch.tensor(labels)}


def test_loss_is_smoothed_in_training_alone():
    task = create_task(replace(TINY, mixup=0.0, cutmix=0.0, label_smoothing=0.2))
    logits = torch.randn(4, 10)
    labels = [1, 2, int(logits[2].argmax()), 4]
    found = task.step(Fixed(logits), batch(labels))
    soft = 0.8 * F.one_hot(torch.tensor(labels), 10) + 0.02
    torch.testing.assert_close(found.loss, -(soft * logits.log_softmax(-1)).sum(-1).mean())
    plain = task.step(Fixed(logits).eval(), batch(labels))
    torch.testing.assert_close(plain.loss, F.cross_entropy(logits, torch.tensor(labels)))
    assert found.running["top1"] == plain.running["top1"] == (logits.argmax(-1) == torch.tensor(labels)).float().mean()
    assert (plain.count, plain.targets.tolist()) == (4, labels)


def test_mixed_targets_follow_the_mixed_images():
    task = create_task(replace(TINY, mixup=0.8, cutmix=0.0))
    seen = []

    class Seeing(Fixed):
        def forward(self, pixel_values):
            seen.append(pixel_values.mean((1, 2, 3)))
            return super().forward(pixel_values)

    images = torch.stack([torch.zeros(1, 8, 8), torch.ones(1, 8, 8)])
    logits = torch.randn(2, 10)
    found = task.step(Seeing(logits), {"pixel_values": images, "labels": torch.tensor([0, 1])})
    part = seen[0].unsqueeze(1)  # of class 1
    targets = torch.cat([1 - part, part, torch.zeros(2, 8)], dim=1)
    torch.testing.assert_close(found.loss, -(targets * logits.log_softmax(-1)).sum(-1).mean())


def test_metrics_are_shares_of_right_answers():
    metrics = create_task(TINY).metrics()
    logits = torch.eye(10) + torch.linspace(0, 0.1, 10)  # 9 is everywhere second, 8 third, …
    for metric in metrics.values():
        metric.update(logits, torch.tensor([0, 1, 2, 9, 9, 9, 8, 0, 0, 9]))
    assert float(metrics["top1"].compute()) == pytest.approx(0.4)
    assert float(metrics["top5"].compute()) == pytest.approx(0.8)


@pytest.mark.parametrize("mixer", ["chimera", "vit"])
@pytest.mark.parametrize("crop", [1.0, 0.75])
def test_the_saved_processor_does_what_evaluation_did(tmp_path, crop, mixer):
    from transformers import AutoImageProcessor

    recipe = replace(TINY, num_channels=3, mean=0.4, std=0.3, eval_crop=crop, image_size=16, mixer=mixer)
    task = create_task(recipe)
    task.save(task.build_model(recipe), tmp_path)
    pixels = torch.randint(80, 176, (24, 31, 3), dtype=torch.uint8).numpy()  # Pillow clamps overshoots half-way
    image = Image.fromarray(pixels)
    found = AutoImageProcessor.from_pretrained(tmp_path)(image, return_tensors="pt")["pixel_values"][0]
    expected = task.test_samples().transform(as_tensor(image, 3))
    assert found.shape == expected.shape == (3, 16, 16)
    torch.testing.assert_close(found, expected, atol=2 / 255 / 0.3, rtol=0)
