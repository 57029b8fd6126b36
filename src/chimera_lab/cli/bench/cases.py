"""The registered cases: workload, baseline and target ratio. Importing this module loads nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import chimera_ssm as chimera
from chimera_lab.cli.bench import topologies
from chimera_lab.cli.bench.mamba_workloads import MambaModel, MambaScan, MambaStep
from chimera_lab.cli.bench.model_workloads import ImageStep, TextStep
from chimera_lab.cli.bench.workloads import Attention, DenseInverse, Masks, Mix, Workload
from chimera_ssm.errors import unknown_name


@dataclass(frozen=True)
class Case:
    """A workload and its baseline.

    Attributes:
        name: identifies the case on the command line.
        what: the workload in words.
        against: the baseline in words.
        workload: what is measured.
        baseline: what it is compared with.
        forward: target ratio of the forward times; ``None`` if there is no target.
        backward: target ratio of forward + backward.
        forward_only: whether only the forward pass is measured.
        memory: whether memory is measured as well.
    """

    name: str
    what: str
    against: str
    workload: Workload
    baseline: Workload
    forward: float | None = None
    backward: float | None = None
    forward_only: bool = False
    memory: bool = False


_on_graphs = partial(Mix, batch=None, heads=4, state_size=64, head_size=16)
_GRID_14 = partial(topologies.grid_dags, 14, 14)
_MOLECULES = partial(topologies.molecules, 32, 150)

CASES = {
    case.name: case
    for case in (
        Case("grid-14", "14×14 grid, four DAGs, batch 8", "attention",
             Mix(_GRID_14, batch=8), Attention(196, batch=8), 0.95, 0.9),
        Case("grid-64", "64×64 grid, four DAGs", "attention",
             Mix(partial(topologies.grid_dags, 64, 64)), Attention(4096), 1 / 6.5, 1 / 4),
        Case("line-4096", "line of 4,096 both ways", "attention",
             Mix(partial(topologies.line_both_ways, 4096)), Attention(4096), 1 / 16, 1 / 9),
        Case("undirected-4096", "undirected line of 4,096", "attention",
             Mix(partial(topologies.undirected_line, 4096)), Attention(4096), 1 / 14, 1 / 8),
        Case("line-128", "line of 128 both ways, batch 32", "attention",
             Mix(partial(topologies.line_both_ways, 128), batch=32), Attention(128, batch=32), 0.9, 0.85),
        Case("molecules", "32 molecules of 150, exact, H 4, N 64, P 16", "attention, 4 heads of 16",
             _on_graphs(_MOLECULES), Attention(150, batch=32, heads=4, head_size=16), 1.2, 1.4),
        Case("molecules-mask", "the masks of 32 molecules of 150, H 4", "dense inverse",
             Masks(_MOLECULES, heads=4), DenseInverse(_MOLECULES, heads=4), 1 / 40, forward_only=True),
        Case("planar", "4 planar graphs of 479, exact, H 4, N 64, P 16", "attention, 4 heads of 16",
             _on_graphs(partial(topologies.planar_graphs, 4, 479)),
             Attention(479, batch=4, heads=4, head_size=16), 1.8, 2.0),
        Case("squaring", "14×14 grid, four DAGs, batch 8", "the same by Squaring",
             Mix(_GRID_14, batch=8), Mix(_GRID_14, batch=8, solver=lambda: chimera.Squaring()), 1 / 35, 1 / 18),
        Case("model-shape", "14×14 grid, diagonal sharing, batch 8, H 12, P 128", "attention",
             Mix(_GRID_14, batch=8, head_size=128, sets=(0, 1, 1, 0)), Attention(196, batch=8)),
        Case("line-scaling", "line of 32,768 both ways", "line of 4,096",
             Mix(partial(topologies.line_both_ways, 32_768)), Mix(partial(topologies.line_both_ways, 4096)), 10, 10),
        Case("small", "line of 64 both ways, H 4, N = P = 16", "attention, 4 heads of 16",
             Mix(partial(topologies.line_both_ways, 64), heads=4, state_size=16, head_size=16),
             Attention(64, heads=4, head_size=16), 3, 3),
    )
}  # fmt: skip

#: Whole models, which take minutes each and are measured only on request.
MODELS = {
    case.name: case
    for case in (
        *(Case(f"image-{size}", f"training step of chimera_image_base, {size}², batch {batch}", "ViT-B",
               ImageStep("chimera", size, batch), ImageStep("vit", size, batch), backward=target, memory=True)
          for size, batch, target in ((224, 8, 1.25), (512, 1, 1.1), (1024, 1, 0.85))),
        *(Case(f"text-{length}", f"training step of chimera_text_base, {length} tokens, batch {batch}", "BERT-B",
               TextStep("chimera", length, batch), TextStep("bert", length, batch), backward=target, memory=True)
          for length, batch, target in ((128, 8, 1.2), (1024, 1, 1.05))),
        *(Case(f"text-{length}", f"chimera_text_base, {length:,} tokens", "BERT-B",
               TextStep("chimera", length), TextStep("bert", length), target, forward_only=True)
          for length, target in ((4096, 0.75), (16_384, 0.4))),
    )
}  # fmt: skip

_FALLBACK = "transformers"

#: Mamba-2 against the fallback of transformers, which takes seconds for a call; measured only on request.
MAMBA2 = {
    case.name: case
    for case in (
        *(Case(f"mamba2-scan-{heads}", f"scan of {length:,} tokens, {heads} heads of 64, N 128, {groups} groups",
               _FALLBACK, MambaScan(True, length, heads, groups), MambaScan(False, length, heads, groups),
               1 / forward, 1 / backward, memory=True)
          for length, heads, groups, forward, backward in ((2048, 24, 1, 9, 5), (2048, 80, 1, 15, 8),
                                                           (4096, 128, 8, 18, 8))),
        Case("mamba2-model", "Mamba-2 of 130M parameters, accelerated, 2,048 tokens", _FALLBACK,
             MambaModel(True, 2048), MambaModel(False, 2048), 1 / 3, 1 / 2.5),
        Case("mamba2-step", "a decoding step of the same model", _FALLBACK,
             MambaStep(True), MambaStep(False), 1, forward_only=True),
    )
}  # fmt: skip

#: Every case, and names for several.
KNOWN, GROUPS = CASES | MODELS | MAMBA2, {"mamba2": tuple(MAMBA2)}


def pick(names: list[str] | None, models: bool = False) -> list[Case]:
    """The cases or groups of these names (default: `CASES`), and `MODELS` on request, in registration order."""
    for name in names or ():
        if name not in KNOWN and name not in GROUPS:
            raise ValueError(unknown_name("case", name, (*KNOWN, *GROUPS)))
    chosen = [case for name in names or () for case in GROUPS.get(name, (name,))]
    wanted = [*(CASES if names is None else chosen), *(MODELS if models else ())]
    return [case for case in KNOWN.values() if case.name in wanted]
