"""Publish trained models, by ``python benchmarks/publish_weights.py runs``.

Copies the model of the first row with seed 0 of each study in the folder of studies, as unpacked from
docs/results/records, to src/chimera_ssm/weights, and writes its card. Runs of single recipes are beside the studies.
"""

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from chimera_lab.show.loading import load
from chimera_ssm.models.card import write_card
from chimera_ssm.models.pretrained import weights_folder


@dataclass(frozen=True)
class Published:
    """A model to publish: the run below the folder of studies, its data with their licence, and its command.

    ``label`` is the name of its single output.
    """

    run: str
    data: str
    command: str
    label: str | None = None


MODELS = {
    "chimera_text_wikitext2": Published(
        "text/chimera-dag/seed-0",
        "WikiText-2 (Merity et al. 2016; articles of Wikipedia, CC BY-SA 3.0): 500 steps of 16 blocks of 128 words, "
        "in lower case, with a vocabulary of 4,096 words. A demonstration, not a useful language model.",
        "chimera reproduce text --data FOLDER",
    ),
    "chimera_image_fashion_mnist": Published(
        "images/chimera-2d/seed-0",
        "12,000 images of Fashion-MNIST (Zalando, MIT licence), 28 × 28 pixels in patches of 4 × 4, six epochs.",
        "chimera reproduce images",
    ),
    "chimera_image_digits": Published(
        "digits",
        "scikit-learn's 1,797 digits (UCI, CC BY 4.0), 8 × 8 pixels, a pixel per node, fifteen epochs.",
        "chimera train image/digits --out runs/digits",
    ),
    "chimera_image_mazes": Published(
        "mazes/chimera-undirected-grid/seed-0",
        "Generated mazes of 12 × 12 cells with two marked cells: are they connected? Walls are black, "
        "free cells white, the marked cells red; a cell is a pixel (`chimera_lab.data.mazes`).",
        "chimera reproduce mazes",
    ),
    "chimera_graph_nci": Published(
        "molecules/chimera-exact/seed-0",
        "The topological polar surface area, in Å², of the 5,000 molecules of the NCI that come with RDKit. Labels are "
        "computed by RDKit.",
        "chimera reproduce molecules",
        label="polar surface area, Å²",
    ),
}


def publish(name: str, model: Published, runs: Path) -> None:
    """Copy a model and write its card."""
    trained, result = load(runs / model.run), json.loads((runs / model.run / "result.json").read_text())
    averaged, metrics = result["model"] == "ema", result["metrics"]
    wanted = {key for key in metrics if key.endswith("_ema") == averaged or not averaged}
    target = weights_folder() / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(trained.folder, target, copy_function=shutil.copyfile)
    if model.label is not None:
        config = json.loads((target / "config.json").read_text()) | {
            "id2label": {"0": model.label}, "label2id": {model.label: 0},
        }  # fmt: skip
        (target / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    write_card(
        trained.model,
        target,
        data=model.data,
        metrics={key.removesuffix("_ema"): metrics[key] for key in sorted(wanted)},
        command=model.command,
        preset=name,
    )
    print(target)


if __name__ == "__main__":
    for name, model in MODELS.items():
        publish(name, model, Path(sys.argv[1]))
