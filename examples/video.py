"""A video as a three-dimensional grid, `python examples/video.py`: in which direction does the digit move?"""

import torch
from sklearn.datasets import load_digits
from torch import nn

import chimera_ssm as chimera

MOVES = {"→": (0, 1), "←": (0, -1), "↓": (1, 0), "↑": (-1, 0)}


def clips(count: int, digits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Clips ``[count, 4, 8, 8]`` of digits that move by one pixel per frame, and their directions."""
    labels = torch.randint(len(MOVES), (count,))
    images = digits[torch.randint(len(digits), (count,))]
    pairs = [(image, list(MOVES.values())[label]) for image, label in zip(images, labels, strict=True)]
    frames = [torch.stack([x.roll((t * dy, t * dx), (0, 1)) for x, (dy, dx) in pairs]) for t in range(4)]
    return torch.stack(frames, dim=1), labels


class Watcher(nn.Module):
    """Maps pixels to a direction; the grid has 8 DAGs, one from each corner."""

    def __init__(self, dim: int = 16):
        super().__init__()
        self.embed, self.classify = nn.Linear(1, dim), nn.Linear(dim, len(MOVES))
        kind = chimera.OnGrid(num_axes=3, sharing="complete")
        self.blocks = nn.ModuleList(chimera.Block(dim, chimera.Chimera(dim, state_size=8, kind=kind)) for _ in range(2))

    def forward(self, clips: torch.Tensor) -> torch.Tensor:
        x = self.embed(clips.flatten(1).unsqueeze(-1))
        for block in self.blocks:
            x = block(x, chimera.Grid(clips.shape[1:]))
        return self.classify(x.mean(1))


def main(steps: int = 200, batch: int = 12) -> float:
    torch.manual_seed(0)
    digits = torch.from_numpy(load_digits().images).float() / 16
    optimizer = torch.optim.AdamW((model := Watcher()).parameters(), 1e-2)
    for step in range(steps):
        x, labels = clips(batch, digits[:1500])
        loss = nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3}: loss {loss.item():.2f}")
    x, labels = clips(64, digits[1500:])  # unseen digits
    guesses = model(x).argmax(-1)
    for rows in x[0].transpose(0, 1):
        print("   ".join("".join(" .:#"[int(3 * pixel)] for pixel in row) for row in rows))
    right = (guesses == labels).float().mean().item()
    print(f"guessed {list(MOVES)[guesses[0]]}; {right:.0%} of 64 new clips right (chance: 25%)")
    return right


if __name__ == "__main__":
    main()
