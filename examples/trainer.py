"""Chimera with the Trainer of `transformers`, `python examples/trainer.py [folder]`: train, save, load, predict.

The Trainer needs accelerate, which comes with `pip install "chimera-ssm[hf]"`.
"""

import sys
import tempfile

import numpy as np
import torch
from sklearn.datasets import load_digits
from transformers import AutoModelForImageClassification, Trainer, TrainingArguments

import chimera_ssm as chimera


def samples(part: slice) -> list[dict]:
    """Digits in the format of the Trainer: a dictionary of the model's arguments for each."""
    digits = load_digits()
    images = torch.from_numpy(digits.images[part]).float().unsqueeze(1) / 8 - 1
    return [{"pixel_values": x, "labels": int(y)} for x, y in zip(images, digits.target[part], strict=True)]


def accuracy(prediction) -> dict[str, float]:
    return {"accuracy": float(np.mean(prediction.predictions.argmax(-1) == prediction.label_ids))}


def main(folder: str, steps: int = 250) -> float:
    torch.manual_seed(0)
    config = chimera.ChimeraImageConfig(
        hidden_size=48, num_hidden_layers=3, state_size=16, patch_size=1, image_size=8, num_channels=1, num_labels=10
    )
    arguments = TrainingArguments(
        folder, max_steps=steps, per_device_train_batch_size=32, per_device_eval_batch_size=256,
        learning_rate=5e-3, lr_scheduler_type="cosine", warmup_steps=10, logging_steps=50,
        save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=not torch.cuda.is_available(),
    )  # fmt: skip
    trainer = Trainer(
        chimera.ChimeraForImageClassification(config),
        arguments,
        train_dataset=samples(slice(0, 1400)),
        eval_dataset=samples(slice(1400, None)),
        compute_metrics=accuracy,
    )
    trainer.train()
    score = trainer.evaluate()["eval_accuracy"]
    trainer.save_model(folder)

    model = AutoModelForImageClassification.from_pretrained(folder)
    digit = samples(slice(1400, 1401))[0]
    answer = model(pixel_values=digit["pixel_values"].unsqueeze(0)).logits.argmax(-1).item()
    print(f"{score:.1%} of 397 digits right; loaded again from {folder}: a {digit['labels']} is classified as {answer}")
    return score


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
