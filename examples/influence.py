"""The influence of all nodes on one, `python examples/influence.py [folder]`: on a line, a grid and a molecule."""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch

import chimera_ssm as chimera


def ring_chain(rings: int) -> tuple[chimera.Graph, np.ndarray]:
    """Six-rings joined by a bond each, and a place for every atom."""
    bonds = [(6 * r + k, 6 * r + (k + 1) % 6) for r in range(rings) for k in range(6)]
    bonds += [(6 * r + 3, 6 * r + 6) for r in range(rings - 1)]
    angle = np.pi * (1 - np.arange(6) / 3)
    xy = np.concatenate([np.stack([np.cos(angle) + 2.9 * r, np.sin(angle) + 2 * (r % 2)], 1) for r in range(rings)])
    edges = np.array(bonds)
    return chimera.Graph(6 * rings, np.concatenate([edges, edges[:, ::-1]]).T), xy


def influence_on(topology: chimera.Topology, node: int) -> torch.Tensor:
    """Row ``node`` of L with random steps: one solve on the flipped topology instead of a whole matrix."""
    torch.manual_seed(0)
    delta, psi = 0.3 * torch.rand(2, 1, topology.num_nodes), torch.full((1, topology.num_nodes), 5.0)
    weight, _ = chimera.graph_adjacency(topology, delta[0], psi, delta_source=delta[1], gamma=0.99)
    unit = torch.zeros(1, topology.num_nodes, 1)
    unit[0, node] = 1
    row = chimera.solve(topology.flip(), weight, unit)[0, :, 0]
    print(f"{topology!r:>32}: {chimera.select_solver(topology)}")
    return row


def main(folder: Path) -> None:
    line, grid, (molecule, xy) = chimera.UndirectedLine(64), chimera.Grid((24, 36)), ring_chain(4)
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.4), width_ratios=(1, 1.2, 1.4), layout="constrained")
    axes[0].bar(range(64), influence_on(line, 20).numpy(), color="tab:purple")
    axes[0].set(title="a line: token 20", xlabel="token", ylabel="influence", yscale="log")
    image = axes[1].imshow(influence_on(grid, 9 * 36 + 14).view(24, 36).log10().numpy(), cmap="magma", vmin=-4)
    axes[1].set(title="a grid: pixel (9, 14)", xticks=[], yticks=[])
    figure.colorbar(image, ax=axes[1], label="log₁₀ influence")
    for a, b in molecule.edge_index.t().tolist():
        axes[2].plot(*xy[[a, b]].T, color="0.7", zorder=0)
    dots = axes[2].scatter(*xy.T, c=influence_on(molecule, 8).log10().numpy(), s=130, cmap="magma", edgecolors="0.4")
    axes[2].set(title="a molecule: atom 8", aspect="equal", xticks=[], yticks=[], ylim=(-2.5, 4.5))
    figure.colorbar(dots, ax=axes[2], label="log₁₀ influence")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "influence.png", dpi=110)
    print(f"wrote {folder / 'influence.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
