"""Point clouds as graphs of nearest neighbours, `python examples/point_cloud.py`: from which surface are these points?

The model is given neighbours and their distances, but no coordinates, so rotating a cloud changes nothing.
"""

import torch
from sklearn.datasets import make_blobs, make_s_curve, make_swiss_roll
from sklearn.neighbors import kneighbors_graph
from torch import nn

import chimera_ssm as chimera

NEAR = 6
SHAPES = {
    "swiss roll": lambda points, seed: make_swiss_roll(points, noise=0.1, random_state=seed)[0],
    "s-curve": lambda points, seed: make_s_curve(points, noise=0.02, random_state=seed)[0],
    "ball": lambda points, seed: make_blobs(points, 3, centers=1, random_state=seed)[0],
    "three balls": lambda points, seed: make_blobs(points, 3, centers=3, random_state=seed)[0],
}


def cloud(label: int, seed: int, points: int = 64) -> tuple[chimera.Graph, torch.Tensor, torch.Tensor]:
    """Graph of nearest neighbours, lengths of its edges ``[E, 1]``, and each point's distances to them ``[T, 6]``."""
    nearest = kneighbors_graph(list(SHAPES.values())[label](points, seed), NEAR, mode="distance")
    near = nearest.maximum(nearest.T).tocoo()  # both directions
    lengths, own = (torch.from_numpy(x.data).float() / x.data.mean() for x in (near, nearest))
    return chimera.Graph(points, [near.col, near.row]), lengths.unsqueeze(1), own.view(points, NEAR).sort(-1)[0]


def main(steps: int = 250, clouds: int = 160, dim: int = 32) -> float:
    torch.manual_seed(0)
    data, labels = [cloud(k % 4, seed=k) for k in range(clouds)], torch.arange(clouds) % 4
    embed, read = nn.Linear(NEAR, dim), nn.Linear(2 * dim, len(SHAPES))
    blocks = nn.ModuleList(chimera.Block(dim, chimera.Chimera(dim, state_size=16, edge_dim=1)) for _ in range(2))
    optimizer = torch.optim.AdamW(nn.ModuleList([embed, blocks, read]).parameters(), 5e-3)

    def guess(chosen: torch.Tensor) -> torch.Tensor:
        graphs, lengths, own = zip(*(data[k] for k in chosen), strict=True)
        x, together = embed(torch.cat(own)), chimera.batch(graphs)
        for block in blocks:
            x = block(x, together, torch.cat(lengths))
        return read(torch.cat(torch.std_mean(x.view(len(chosen), -1, dim), dim=1), dim=-1))

    for step in range(steps):
        chosen = torch.randint(clouds // 4, clouds, (8,))
        optimizer.zero_grad()
        (loss := nn.functional.cross_entropy(guess(chosen), labels[chosen])).backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step:3}: loss {loss.item():.2f}")
    guesses = guess(test := torch.arange(clouds // 4)).argmax(-1)
    print(*(f"{list(SHAPES)[labels[k]]:>12}: predicted {list(SHAPES)[guesses[k]]}" for k in range(4)), sep="\n")
    right = (guesses == labels[test]).float().mean().item()
    print(f"{right:.0%} of {len(test)} new clouds right (chance: 25%)")
    return right


if __name__ == "__main__":
    main()
