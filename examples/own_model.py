"""Chimera as a layer of a custom model, `python examples/own_model.py`: it learns to write character by character."""

import inspect
import textwrap

import torch
from torch import nn

import chimera_ssm as chimera


class Writer(nn.Module):
    """Maps characters to scores of the next character; everything but the mixer is plain PyTorch."""

    def __init__(self, letters: int, dim: int = 64, layers: int = 2):
        super().__init__()
        self.embed, self.score = nn.Embedding(letters, dim), nn.Linear(dim, letters)
        mixers = (chimera.Chimera(dim, state_size=16, kind=chimera.OnLine()) for _ in range(layers))
        self.layers = nn.ModuleList(nn.ModuleList([nn.LayerNorm(dim), mixer]) for mixer in mixers)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # [Z, T] → [Z, T, letters]
        x, line = self.embed(ids), chimera.Line(ids.shape[1])
        for norm, mixer in self.layers:
            x = x + mixer(norm(x), line)
        return self.score(x)

    @torch.no_grad()
    def step(self, letter: torch.Tensor, states: list) -> torch.Tensor:  # [Z] → [Z, letters]; states are replaced
        x = self.embed(letter)
        for k, (norm, mixer) in enumerate(self.layers):
            y, states[k] = mixer.step(norm(x), states[k])
            x = x + y
        return self.score(x)


def main(steps: int = 160, length: int = 128) -> float:
    torch.manual_seed(0)
    letters = sorted(set(text := inspect.getsource(textwrap)))
    ids = torch.tensor([letters.index(letter) for letter in text])
    optimizer = torch.optim.AdamW((model := Writer(len(letters))).parameters(), 5e-3)
    for step in range(steps):
        batch = ids[torch.randint(len(ids) - length, (8, 1)) + torch.arange(length + 1)]
        optimizer.zero_grad()
        (loss := nn.functional.cross_entropy(model(batch[:, :-1]).mT, batch[:, 1:])).backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3}: {loss.item() / 0.6931:.2f} bits per character")
    written, states = "    def ", [None] * len(model.layers)
    for k in range(160):
        scores = model.step(torch.tensor([letters.index(written[k])]), states)[0]
        if k + 1 == len(written):
            written += letters[torch.multinomial((2 * scores).softmax(-1), 1)]
    print(f"it writes:\n{textwrap.indent(written, '| ')}")
    return loss.item() / 0.6931


if __name__ == "__main__":
    main()
