"""The cost of a training step relative to a Transformer, which the paper gives as about 1.5."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from chimera_lab.cli.bench.measure import TimeRatio, take_turns
from chimera_lab.cli.bench.report import describe_machine
from chimera_lab.cli.reports import write_report
from chimera_lab.cli.reproduce import page
from chimera_lab.data.random import seeded
from chimera_lab.planning.synthetic_data import task_without_data
from chimera_lab.recipes import Scale, find_recipe
from chimera_lab.studies.report import Block, Cells, Words, markdown
from chimera_lab.training.files import write_json
from chimera_lab.training.kinds import count_parameters, match_parameters
from chimera_lab.training.recipe import Recipe

PAPER = 1.5

#: Seconds to measure and samples of a step, by scale.
_SECONDS, _SAMPLES = {"laptop": 8.0, "paper": 60.0}, {"laptop": 32, "paper": 8}


def pairs(scale: Scale) -> dict[str, tuple[Recipe, Recipe]]:
    """Chimera and a Transformer of the same size for each kind of data."""
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
    args.out.mkdir(parents=True, exist_ok=True)  # if this is impossible, fail before a minute of measuring
    scale: Scale = args.scale or "laptop"
    rows, ratios = [], {}
    for what, recipes in pairs(scale).items():
        print(f"{what} …", flush=True)
        (ours, size), (baseline, baseline_size) = (training_step(recipe, _SAMPLES[scale]) for recipe in recipes)
        our_timing, baseline_timing = take_turns([ours, baseline], _SECONDS[scale])
        measured = TimeRatio(our_timing, baseline_timing)
        ratios[what] = {"ratio": measured.ratio, "median_ratio": measured.median_ratio}
        seconds = [f"{timing.best:.3f}" for timing in (measured.workload, measured.baseline)]
        cells = [f"{measured.ratio:.2f}", f"{PAPER:.1f}", f"{measured.ratio - PAPER:+.2f}"]
        rows.append([what, f"{size:,}, {baseline_size:,}", *seconds, *cells])
    blocks = _report(scale, rows)
    write_report(f"# Cost\n\n{markdown(blocks)}", args.out / "cost.md", args.docs)
    write_json(args.out / "cost.json", ratios)
    path = args.out / "cost.html"
    path.write_text(page.document("Cost", [page.block_html(block) for block in blocks]), encoding="utf-8")
    print(f"as a page: {path}")


def _report(scale: Scale, rows: list[list[str]]) -> list[Block]:
    machine = ", ".join(f"{name} {value}" for name, value in describe_machine().items())
    head = ["data, baseline", "parameters", "Chimera, s", "baseline, s", "ratio here", "paper", "difference"]
    return [
        Words(
            f"Measured by `chimera reproduce cost --scale {scale}`: forward and backward pass on {_SAMPLES[scale]} "
            "samples; both models run alternately, and the best time of each is reported. The paper gives one figure, "
            f"about {PAPER}, on GPUs, without naming the model. Here: {machine}."
        ),
        Cells(head, rows),
    ]
