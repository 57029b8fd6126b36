"""What the paper says of its cost, about 1.5 times the time of a Transformer: training steps of both, in turns."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chimera_lab.recipes import Scale
    from chimera_lab.training.recipe import Recipe

PAPER = 1.5

#: Seconds of measuring, and samples of a step, by scale.
_SECONDS, _SAMPLES = {"laptop": 8.0, "paper": 60.0}, {"laptop": 32, "paper": 8}


def pairs(scale: Scale) -> dict[str, tuple[Recipe, Recipe]]:
    """Chimera and a Transformer of the same size for each kind of data."""
    from chimera_lab.recipes import find_recipe
    from chimera_lab.training.kinds import count_parameters, match_parameters

    if scale == "paper":
        peptides = find_recipe("graph/peptides-func", "paper")
        return {
            "text, BERT-B": (find_recipe("text/c4", "paper"), find_recipe("text/c4-bert", "paper")),
            "images, ViT-B": (find_recipe("image/imagenet", "paper"), find_recipe("image/imagenet-vit", "paper")),
            "peptides, GPS": (peptides, replace(peptides, mixer="gps", hidden_size=62)),  # as many parameters
        }
    small = {
        "text, BERT": ("text/pydoc", "bert"),
        "images, ViT": ("image/digits", "vit"),
        "molecules, GPS": ("graph/nci", "gps"),
    }
    found = {}
    for what, (name, mixer) in small.items():
        ours = find_recipe(name)
        found[what] = ours, match_parameters(replace(ours, mixer=mixer), count_parameters(ours))
    return found


def training_step(recipe: Recipe, samples: int) -> tuple[Callable[[], None], int]:
    """A forward and a backward pass on the first samples, and the parameters of the model."""
    from chimera_lab.data.random import seeded
    from chimera_lab.planning.stand_ins import task_without_data

    task: Any = task_without_data(recipe)
    with seeded(0, "cost"):
        model, data = task.build_model(recipe).train(), task.train_samples()
        batch = data.collate([data.sample(index) for index in range(samples)])

    def step() -> None:
        task.step(model, batch).loss.backward()
        model.zero_grad()

    return step, sum(p.numel() for p in model.parameters())


def run(args: argparse.Namespace) -> None:
    """Measure all pairs and write the table."""
    from chimera_lab.cli.bench.measure import Comparison, take_turns
    from chimera_lab.cli.bench.report import describe_machine
    from chimera_lab.cli.reproduce import page, write_beside, write_report
    from chimera_lab.studies.report import Block, Cells, Words, markdown

    args.out.mkdir(parents=True, exist_ok=True)  # if it cannot be made, say so before a minute of measuring
    scale: Scale = args.scale or "laptop"
    rows, found = [], {}
    for what, recipes in pairs(scale).items():
        print(f"{what} …", flush=True)
        (ours, size), (theirs, other) = (training_step(recipe, _SAMPLES[scale]) for recipe in recipes)
        timings = take_turns([ours, theirs], _SECONDS[scale])
        measured = Comparison(timings[0], timings[1])
        found[what] = {"ratio": measured.ratio, "median_ratio": measured.median_ratio}
        seconds = [f"{timing.best:.3f}" for timing in (measured.work, measured.baseline)]
        ratios = [f"{measured.ratio:.2f}", f"{PAPER:.1f}", f"{measured.ratio - PAPER:+.2f}"]
        rows.append([what, f"{size:,}, {other:,}", *seconds, *ratios])
    command = f"chimera reproduce cost --scale {scale}"
    machine = ", ".join(f"{name} {value}" for name, value in describe_machine().items())
    blocks: list[Block] = [
        Words(
            f"Measured by `{command}`: forward and backward of {_SAMPLES[scale]} samples, in turns, the best of each. "
            f"The paper gives one figure, about {PAPER}, on GPUs, without saying of which model. Here: {machine}."
        ),
        Cells(["data, rival", "parameters", "Chimera, s", "rival, s", "ratio here", "paper", "difference"], rows),
    ]
    write_report(f"# Cost\n\n{markdown(blocks)}", args.out / "cost.md", args.docs)
    write_beside(args.out / "cost.json", found)
    path = args.out / "cost.html"
    path.write_text(page.document("Cost", [page.html(block) for block in blocks]), encoding="utf-8")
    print(f"as a page: {path}")
