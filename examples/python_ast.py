"""Programs as trees, `python examples/python_ast.py`: predict hidden nodes of functions in the standard library."""

import ast
import random
from pathlib import Path

import torch
from torch import nn

import chimera_ssm as chimera

MODULES = ("argparse", "ast", "difflib", "inspect", "calendar", "statistics", "tarfile", "textwrap", "typing")


def trees(modules: tuple[str, ...]):
    """Kinds of nodes and tree of every function with 10 to 120 nodes; edges lead down, then the same edges up."""
    for module in modules:
        for function in ast.walk(ast.parse(Path(ast.__file__).with_stem(module).read_text())):
            nodes = [n for n in ast.walk(function) if n._fields]  # without "Load" and similar nodes, which trees share
            if isinstance(function, ast.FunctionDef) and 10 <= len(nodes) <= 120:
                number = {node: k for k, node in enumerate(nodes)}
                down = [(number[n], number[c]) for n in nodes for c in ast.iter_child_nodes(n) if c in number]
                both_ways = down + [(child, parent) for parent, child in down]
                yield [type(n).__name__ for n in nodes], chimera.Graph(len(nodes), torch.tensor(both_ways).t())


def main(steps: int = 120, modules: tuple[str, ...] = MODULES) -> float:
    torch.manual_seed(0)
    random.Random(0).shuffle(data := list(trees(modules)))
    names = sorted({kind for kinds, _ in data for kind in kinds})
    embed, read = nn.Embedding(len(names) + 1, 64), nn.Linear(64, len(names))  # one more for hidden nodes
    blocks = nn.ModuleList(chimera.Block(64, chimera.Chimera(64, state_size=16, edge_dim=2)) for _ in range(2))
    optimizer = torch.optim.AdamW(nn.ModuleList([embed, blocks, read]).parameters(), 3e-3)

    def guess(part: list) -> tuple[torch.Tensor, torch.Tensor]:
        kinds = torch.tensor([names.index(kind) for kinds, _ in part for kind in kinds])
        hidden = torch.rand(len(kinds)) < 0.15
        up_or_down = torch.cat([torch.eye(2).repeat_interleave(tree.num_edges // 2, 0) for _, tree in part])
        x, forest = embed(kinds.masked_fill(hidden, len(names))), chimera.batch([tree for _, tree in part])
        for block in blocks:
            x = block(x, forest, up_or_down)
        return read(x[hidden]), kinds[hidden]

    test, train = data[: len(data) // 5], data[len(data) // 5 :]
    for step in range(steps):
        optimizer.zero_grad()
        (loss := nn.functional.cross_entropy(*guess(random.sample(train, 12)))).backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3}: loss {loss.item():.2f}")
    scores, kinds = guess(test)
    accuracy, common = ((kinds == guess).float().mean().item() for guess in (scores.argmax(-1), kinds.mode()[0]))
    print(*(f"{names[g]:>14} for {names[k]}" for g, k in zip(scores.argmax(-1)[:8], kinds, strict=False)), sep="\n")
    print(f"{accuracy:.0%} right in {len(test)} new functions (always the most frequent kind: {common:.0%})")
    return accuracy - common


if __name__ == "__main__":
    main()
