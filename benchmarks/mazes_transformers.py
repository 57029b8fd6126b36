"""ViT and Chimera in one script with the Trainer of `transformers`: are two marked cells of a maze connected?

    python benchmarks/mazes_transformers.py

Half of the mazes are. Both models have the same size and see each maze once.
"""

import sys
import tempfile

import numpy as np
import torch
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

import chimera_ssm as chimera
from chimera_lab.data.mazes import draw_mazes

SIDE = 10
IMAGES = {"image_size": SIDE, "patch_size": 1, "num_channels": 3, "num_labels": 2, "num_hidden_layers": 2}
VIT = ViTConfig(**IMAGES, hidden_size=33, num_attention_heads=2, head_dim=16, intermediate_size=132)
CHIMERA = chimera.ChimeraImageConfig(
    **IMAGES, hidden_size=44, num_heads=4, state_size=16, topology="undirected", pooling="max", gamma=0.999
)


def samples(count: int, part: str) -> list[dict]:
    """Mazes as pictures with one pixel for each cell, in the format of the Trainer."""
    pixels, labels = draw_mazes(SIDE, count, part)
    return [{"pixel_values": x / 127.5 - 1, "labels": y} for x, y in zip(pixels, labels.tolist(), strict=True)]


def accuracy(prediction) -> dict[str, float]:
    """The metric, for the Trainer."""
    return {"accuracy": float(np.mean(prediction.predictions.argmax(-1) == prediction.label_ids))}


def main(mazes: int = 20_000, tests: int = 2000) -> dict[str, float]:
    """Print a line for each model, and return the accuracies."""
    train, test, found = samples(mazes, "train"), samples(tests, "test"), {}
    for model_class, config, lr in (
        (ViTForImageClassification, VIT, 1e-3),
        (chimera.ChimeraForImageClassification, CHIMERA, 6e-3),
    ):
        torch.manual_seed(0)
        arguments = TrainingArguments(
            tempfile.mkdtemp(), num_train_epochs=1, per_device_train_batch_size=32, per_device_eval_batch_size=250,
            learning_rate=lr, lr_scheduler_type="cosine", warmup_steps=60, weight_decay=0.01, logging_steps=100,
            save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=not torch.cuda.is_available(),
        )  # fmt: skip
        model = model_class(config)
        trainer = Trainer(model, arguments, train_dataset=train, eval_dataset=test, compute_metrics=accuracy)
        trainer.train()
        found[model_class.__name__] = trainer.evaluate()["eval_accuracy"]
        print(
            f"{model_class.__name__}: {model.num_parameters():,} parameters, {found[model_class.__name__]:.1%} right",
            flush=True,
        )
    return found


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
