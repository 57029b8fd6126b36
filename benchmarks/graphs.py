"""What graphs cost: time and memory of training steps, exact masks of real peptides, and how factors fill.

    python benchmarks/graphs.py FOLDER [OUT]

FOLDER holds the peptides' original files. Prints tables in Markdown and writes OUT/fill.png. Minutes on one thread.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
import torch

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import chimera_ssm as chimera
from chimera_lab.cli.bench.measure import take_turns
from chimera_lab.cli.bench.memory import extra_memory
from chimera_lab.data.graph_store import GraphStore
from chimera_lab.data.samples import Samples
from chimera_lab.data.superpixels import region_graph, slic
from chimera_lab.studies import find_study
from chimera_lab.studies.study import Study
from chimera_lab.training.kinds import create_task
from chimera_lab.training.recipe import Recipe

SECONDS = 60


def steps_of_training(study: Study) -> None:
    """Forward and backward of a batch for each row of the study, in turns, and their memory."""
    recipes = study.recipes()
    tasks = {name: create_task(recipe) for name, recipe in recipes.items()}
    batches = {
        recipe.eigenvectors: first_batch(tasks[name].train_samples(), recipe) for name, recipe in recipes.items()
    }
    models = {name: task.build_model(recipes[name]) for name, task in tasks.items()}
    functions = [
        lambda model=model, batch=batches[recipes[name].eigenvectors]: model(**batch).loss.backward()
        for name, model in models.items()
    ]
    timings = take_turns(functions, SECONDS)
    memory = [extra_memory(function) for function in functions]
    epoch = study.recipe.train_limit / study.recipe.batch_size
    print("\n| model | parameters | seconds per step | per epoch | to the first | MB |\n|---|---|---|---|---|---|")
    for (name, model), timing, peak in zip(models.items(), timings, memory, strict=True):
        seconds, size = timing.median, f"{model.num_parameters():,}"
        ratio, megabytes = seconds / timings[0].median, f"{peak / 1e6:.0f}"
        print(f"| {name} | {size} | {seconds:.3f} | {epoch * seconds:.0f} | {ratio:.2f} | {megabytes} |")


def first_batch(samples: Samples, recipe: Recipe) -> dict:
    """The first samples as a batch."""
    return samples.collate([samples.sample(i) for i in range(recipe.batch_size)])


def masks(store: GraphStore, heads: int = 2, count: int = 32) -> None:
    """Exact masks of a batch against `torch.linalg.inv` of the same, padded."""
    topology = chimera.batch([store.sample(i)["pyg_topology"].topology for i in range(count)])
    delta, psi = torch.rand(2, heads, topology.num_nodes)
    weight = chimera.graph_adjacency(topology, delta, psi).weight
    size = max(part.num_nodes for part in topology.parts)
    dense = torch.eye(size).repeat(count, heads, 1, 1)
    start = 0
    for k, part in enumerate(topology.parts):
        source, target = part.edge_index
        dense[k, :, target, source] -= weight[:, start : start + part.num_edges]
        start += part.num_edges
    factors = chimera.SparseLU()
    ours, inverse = take_turns(
        [lambda: factors.resolvent(topology, weight).mask(), lambda: torch.linalg.inv(dense)], SECONDS / 4
    )
    print(
        f"\nExact masks of {count} peptides, {size} atoms at most: {ours.median:.4f} s; torch.linalg.inv of the padded"
    )
    print(f"batch: {inverse.median:.4f} s, {inverse.median / ours.median:.0f} times as long.")


def fill_of_peptides(store: GraphStore) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of each graph, and entries of its factors."""
    return store.arrays["nodes"], 2 * store.arrays["pairs"] + store.arrays["nodes"]


def fill_of_superpixels() -> tuple[np.ndarray, np.ndarray]:
    """The same of a photograph in more and more regions."""
    from sklearn.datasets import load_sample_image

    pixels = load_sample_image("china.jpg") / 255
    found = []
    for segments in (50, 100, 200, 400, 800, 1600, 3200):
        x, edges, _ = region_graph(pixels, slic(pixels, segments))
        graph = chimera.Graph(len(x), edges)
        found.append((graph.num_nodes, graph.elimination_plan(sys.maxsize).fill))
    nodes, entries = np.array(found).T
    return nodes, entries


def draw_fill(store: GraphStore, path: Path) -> None:
    """Entries per node against nodes."""
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, (nodes, entries) in {"peptides": fill_of_peptides(store), "superpixels": fill_of_superpixels()}.items():
        axes.plot(nodes, entries / nodes, "." if name == "peptides" else "o-", markersize=3, label=name)
        mean, most = entries.sum() / nodes.sum(), (entries / nodes).max()
        print(f"\nFill of {name}: {mean:.1f} entries per node, {most:.1f} at most")
    axes.set(xlabel="nodes", ylabel="entries of L and U per node", xscale="log")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    from dataclasses import replace

    torch.set_num_threads(1)
    torch.manual_seed(0)
    graphs = find_study("graphs")
    graphs = replace(graphs, recipe=replace(graphs.recipe, data=sys.argv[1]))
    steps_of_training(graphs)
    peptides = create_task(graphs.recipe).graphs.train.whole
    masks(peptides)
    draw_fill(peptides, Path(sys.argv[2] if len(sys.argv) > 2 else ".") / "fill.png")
