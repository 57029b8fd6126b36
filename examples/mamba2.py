"""A Mamba-2 of `transformers`, accelerated, `python examples/mamba2.py`: it learns to write Python by the character."""

import inspect
import statistics
import time

import torch
from transformers import Mamba2Config, Mamba2ForCausalLM

import chimera_ssm as chimera

LETTERS = "\n" + "".join(map(chr, range(32, 127)))


def encode(text: str) -> torch.Tensor:
    return torch.tensor([LETTERS.index(c) for c in text if c in LETTERS])


def seconds(work) -> float:
    """Of the second call; the first may compile kernels."""
    work()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(steps: int = 200, length: int = 256) -> float:
    torch.manual_seed(0)
    config = Mamba2Config(
        vocab_size=len(LETTERS), hidden_size=128, num_hidden_layers=3, num_heads=4, head_dim=64, state_size=64,
        n_groups=1, pad_token_id=None, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = Mamba2ForCausalLM(config)
    data = encode(inspect.getsource(statistics))

    def train() -> float:
        ids = torch.stack([data[s : s + length] for s in torch.randint(len(data) - length, (8,)).tolist()])
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    before = seconds(train)
    print(chimera.accelerate(model))
    print(f"a training step: {before:.2f} s, accelerated {seconds(train):.2f} s")
    for step in range(steps):
        loss = train()
        if step % 50 == 0 or step == steps - 1:
            print(f"step {step:3d}: loss {loss:.2f}")
    ids = model.eval().generate(encode("def mean(").unsqueeze(0), max_new_tokens=120, do_sample=True, top_k=5)
    print("it writes:\n" + "".join(LETTERS[i] for i in ids[0]))
    return loss


if __name__ == "__main__":
    main()
