"""Roads as a planar graph, `python examples/road_network.py`: how far is the nearest hospital, in unseen towns?"""

import networkx as nx
import torch
from torch import nn

import chimera_ssm as chimera


def town(side: int, seed: int) -> tuple[chimera.Graph, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Streets, their lengths in minutes ``[E, 1]``, hospitals ``[T, 1]`` and the minutes to one ``[T]``."""
    draw = torch.Generator().manual_seed(seed)
    roads = nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side))
    for a, b in list(roads.edges):
        street = {"minutes": 0.5 + 1.5 * torch.rand((), generator=draw).item()}
        roads.remove_edge(a, b)  # a quarter is closed if the town stays connected
        if torch.rand((), generator=draw) > 0.25 or not nx.has_path(roads, a, b):
            roads.add_edge(a, b, **street)
    hospitals = torch.randperm(side * side, generator=draw)[:3].tolist()
    minutes = nx.multi_source_dijkstra_path_length(roads, set(hospitals), weight="minutes")
    source, target, lengths = zip(*roads.to_directed().edges(data="minutes"), strict=True)
    x = torch.zeros(side * side, 1).index_fill(0, torch.tensor(hospitals), 1.0)
    y = torch.tensor([float(minutes[node]) for node in range(side * side)])
    return chimera.Graph(side * side, [source, target]), torch.tensor(lengths).unsqueeze(1), x, y


def main(steps: int = 100, towns: int = 40, side: int = 8) -> float:
    torch.manual_seed(0)
    data = [town(side, seed) for seed in range(towns)]
    embed, read = nn.Linear(1, 32), nn.Linear(32, 1)
    blocks = nn.ModuleList(chimera.Block(32, chimera.Chimera(32, state_size=16, edge_dim=1)) for _ in range(3))
    optimizer = torch.optim.AdamW(nn.ModuleList([embed, blocks, read]).parameters(), 5e-3)

    def guess(part: list) -> tuple[torch.Tensor, torch.Tensor]:
        graphs, lengths, hospitals, minutes = zip(*part, strict=True)
        together, x = chimera.batch(graphs), embed(torch.cat(hospitals))
        for block in blocks:
            x = block(x, together, torch.cat(lengths))
        return read(x).squeeze(-1), torch.cat(minutes)

    train, test = data[towns // 4 :], data[: towns // 4]
    for step in range(steps):
        guessed, minutes = guess([train[k] for k in torch.randint(len(train), (8,))])
        optimizer.zero_grad()
        (loss := (guessed - minutes).abs().mean()).backward()
        optimizer.step()
        if step % 25 == 0:
            print(f"step {step:3}: {loss.item():.2f} minutes off")
    guessed, minutes = guess(test)
    error, spread = ((x - minutes).abs().mean().item() for x in (guessed, minutes.median()))
    print("minutes to a hospital from each crossing of a new town, predicted:")
    print(*(" ".join(f"{max(0, m):4.1f}" for m in row) for row in guessed.view(-1, side)[:side].tolist()), sep="\n")
    print(f"{len(test)} new towns: {error:.2f} minutes off (best constant prediction: {spread:.2f})")
    return spread - error


if __name__ == "__main__":
    main()
