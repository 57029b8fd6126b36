"""`chimera demo`: train Chimera and a Vision Transformer on digits, and look at what pixels hear."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chimera_ssm.training.recipe import Recipe
    from chimera_ssm.training.run import Run

EXAMPLE = "chimera demo --out runs/demo"
_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """The options of the command."""
    out = Path("runs") / "demo"
    parser.add_argument("--out", type=Path, default=out, metavar="FOLDER", help=f"of its runs and pictures ({out})")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the digits (10)")


def run(args: argparse.Namespace) -> None:
    """Two trainings, a table, a picture."""
    import rich
    from rich.table import Table

    from chimera_ssm.recipes import find_recipe

    if args.epochs < 1:
        raise ValueError(f"--epochs must be at least 1, found {args.epochs}")
    digits = replace(find_recipe("image/digits"), epochs=args.epochs)
    recipes = {"Chimera": digits, "ViT": replace(digits, mixer="vit").with_parameters(digits.parameters())}
    table = Table("model", "test accuracy", "parameters", "seconds", title=f"digits, {args.epochs} epochs")
    runs = {name: _trained(name, recipe, args.out / name.lower()) for name, recipe in recipes.items()}
    for name, trained in runs.items():
        result: Any = trained.result
        accuracy = max(result["metrics"]["top1"], result["metrics"]["top1_ema"])
        table.add_row(name, f"{accuracy:.2%}", f"{result['parameters']:,}", f"{result['seconds']:.0f}")
    rich.print(table)
    print("one recipe for both, made for Chimera; a comparison with a sweep for each model: chimera reproduce images")
    picture = args.out / "influence.png"
    _draw(runs["Chimera"], picture)
    print(f"what one pixel hears from all others: {picture}")
    print(f'the model: AutoModelForImageClassification.from_pretrained("{runs["Chimera"].model}")')


def _trained(name: str, recipe: Recipe, folder: Path) -> Run:
    """The finished run in a folder: trained now, continued, or there already."""
    from chimera_ssm.training.bookkeeper import Interrupted
    from chimera_ssm.training.fit import latest_checkpoint, train
    from chimera_ssm.training.recipe import Machine
    from chimera_ssm.training.run import Run, open_run

    run = open_run(folder) if (folder / "config.yaml").exists() else Run(folder, "image/digits", recipe, Machine())
    if run.recipe != recipe:
        raise ValueError(f"{folder} holds a run with other settings: remove it, or choose another folder with --out")
    if run.result is not None:
        print(f"{name}: trained already, in {folder}; remove the folder to train again")
        return run
    print(f"training {name} on scikit-learn's digits", flush=True)
    try:
        train(run, latest_checkpoint(run) if run.exists else None)
    except Interrupted:
        raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
    return run


def _draw(run: Run, path: Path) -> None:
    """Test digits, and over each what its darkest pixel near the centre hears, in the last mixer, mean over heads."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import torch
    from transformers import AutoModelForImageClassification

    import chimera_ssm.models  # noqa: F401  registers the Auto classes
    from chimera_ssm.nn import influence

    model: Any = AutoModelForImageClassification.from_pretrained(run.model).eval()
    samples = run.recipe.task().test_samples()
    images = torch.stack([samples.sample(k)["pixel_values"] for k in range(_SHOWN)])
    side = images.shape[-1]
    figure, axes = plt.subplots(2, _SHOWN, figsize=(2.1 * _SHOWN, 4.4), layout="constrained")
    for k, image in enumerate(images):
        middle = image[0, side // 4 : -side // 4, side // 4 : -side // 4]
        row, column = (int(i) + side // 4 for i in divmod(int(middle.argmax()), middle.shape[1]))
        heard = influence(model, row * side + column, pixel_values=image[None])[-1][0].mean(0).view(side, side)
        guess = int(model(pixel_values=image[None]).logits.argmax())
        axes[0, k].imshow(image[0], cmap="gray_r")
        axes[0, k].set_title(f"read as {guess}")
        shown = axes[1, k].imshow(heard.clamp_min(1e-6).log10(), cmap="magma")
        for axis in axes[:, k]:
            axis.plot(column, row, "s", mfc="none", mec="tab:cyan", ms=16, mew=2)
            axis.set(xticks=[], yticks=[])
    figure.colorbar(shown, ax=axes[1, :], label="log₁₀ of the resolvent's row")
    figure.suptitle("What the marked pixel hears from all others")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
