"""A recipe that trains in a second or two, and runs of it."""

from dataclasses import replace

from chimera_ssm.training.image_recipe import ImageRecipe
from chimera_ssm.training.recipe import Machine
from chimera_ssm.training.run import Run

TINY = ImageRecipe(
    hidden_size=16, num_hidden_layers=2, patch_size=2, state_size=4, num_heads=2,
    train_limit=200, epochs=3, batch_size=32, micro_batch=16, log_every=1, ema=0.9, warmup_epochs=1,
    drop_path=0.1, shift=1, mixup=0.3, cutmix=0.3,
)  # fmt: skip
CPU = Machine(accelerator="cpu", devices=1)


def make_run(folder, machine=CPU, **changes):
    run = Run(folder, "image/tiny", replace(TINY, **changes), machine)
    run.create()
    return run


def what_remains(run):
    """All of a run that does not depend on the time of day."""
    files = "metrics.csv", "steps.csv", "model/model.safetensors", "config.yaml"
    return {name: (run.folder / name).read_bytes() for name in files}
