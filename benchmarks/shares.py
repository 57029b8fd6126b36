"""The share of the resolvent in every preset when training starts, as a Markdown table: python benchmarks/shares.py."""

from statistics import median

import torch

import chimera_ssm as chimera
from chimera_ssm.models.graph.presets import PRESETS as GRAPHS
from chimera_ssm.models.image.presets import PRESETS as IMAGES
from chimera_ssm.models.text.presets import PRESETS as TEXTS

SEEDS = range(2)
#: Deep presets are built with their first layers only: all layers are drawn alike.
LAYERS = 3


def texts(settings):
    """Random tokens."""
    return {"input_ids": torch.randint(5, settings.get("vocab_size", 30_522), (2, 128))}


def images(settings):
    """Noise of 14 × 14 patches."""
    side = 14 * chimera.ChimeraImageConfig(**settings).patch_size
    return {"pixel_values": torch.randn(2, 3, side, side)}


def graphs(settings):
    """A tree of 150 nodes in which most have one or two children, as atoms of a peptide have."""
    nodes = torch.arange(1, 150)
    edges = torch.stack([nodes, (nodes - 1 - torch.randint(3, nodes.shape)).clamp(min=0)])
    edges = torch.cat([edges, edges.flip(0)], dim=1)

    def features(sizes, count):
        if isinstance(sizes, int):
            return torch.randn(count, sizes)
        return torch.stack([torch.randint(n, (count,)) for n in sizes], dim=1)

    return {
        "x": features(settings["node_features"], 150),
        "edge_index": edges,
        "edge_attr": features(settings["edge_features"], edges.shape[1]),
    }


def shares(name, inputs, **overrides):
    """Of all layers, over several draws of the weights."""
    found = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = chimera.create_model(
            name, num_hidden_layers=LAYERS, **overrides
        ).train()  # batch norms of graphs have seen nothing yet
        found += chimera.resolvent_share(model.train(), **inputs)  # batch norms have seen nothing yet
    return found


def main():
    """Print the table."""
    torch.manual_seed(0)
    print("| preset | least | median | largest |\n|---|---|---|---|")
    for presets, draw, options in (
        (TEXTS, texts, [{"variant": "dag"}, {"variant": "ug"}]),
        (IMAGES, images, [{"topology": "2d"}, {"topology": "fwd_rev"}]),
        (GRAPHS, graphs, [{"dropout": 0.0}]),
    ):
        for name, settings in presets.items():
            for changes in options:
                found = shares(name, draw(settings), **changes)
                label = " ".join([f"`{name}`", *(str(value) for value in changes.values() if value)])
                print(f"| {label} | {min(found):.2f} | {median(found):.2f} | {max(found):.2f} |", flush=True)


if __name__ == "__main__":
    main()
