"""The Triton kernels of the library: how many launches a mix has, and what each kernel needs on GPUs."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from chimera_ssm.gpu.launch import Launch, recorded_launches
from chimera_ssm.gpu.resources import TARGETS, resources_of
from chimera_ssm.ops.dense import triton as dense
from chimera_ssm.ops.scan import triton as scan
from chimera_ssm.ops.sweep import triton as sweep
from chimera_ssm.topology import Grid, Line


class Case(NamedTuple):
    """A mix, and how its products are computed.

    Attributes:
        N: state size.
        P: channels of a head.
        dtype: of V, B and C.
        precision: `torch.set_float32_matmul_precision`.
        shape: of a grid; a line if empty.
    """

    N: int
    P: int
    dtype: torch.dtype
    precision: str
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        name = {"high": "tf32", "highest": "float32"}[self.precision]
        grid = "×".join(map(str, self.shape)) + ", " if self.shape else ""
        return f"{grid}N {self.N}, P {self.P}, {'bfloat16' if self.dtype == torch.bfloat16 else name}"


LINES = (
    Case(64, 64, torch.bfloat16, "high"),
    Case(128, 64, torch.bfloat16, "high"),
    Case(64, 64, torch.float32, "high"),
    Case(128, 128, torch.float32, "high"),
    Case(64, 64, torch.float32, "highest"),
)
GRIDS = (
    Case(96, 64, torch.bfloat16, "high", (14, 14)),
    Case(96, 64, torch.float32, "high", (14, 14)),
    Case(96, 64, torch.float32, "highest", (14, 14)),
    Case(64, 128, torch.bfloat16, "high", (14, 14)),
    Case(64, 64, torch.bfloat16, "high", (32, 32)),
    Case(64, 64, torch.float32, "highest", (32, 32)),
    Case(64, 64, torch.bfloat16, "high", (64, 64)),
    Case(64, 64, torch.float32, "high", (64, 64)),
)
CASES = LINES + GRIDS
#: Nodes of small graphs.
GRAPHS = (32, 64, 128, 160, 256)


def launches_of(case: Case) -> tuple[list[Launch], list[Launch]]:
    """The launches of a mix, forward and backward."""
    return launches_of_grids(case) if case.shape else launches_of_lines(case)


def launches_of_lines(case: Case, T: int = 4096, H: int = 12) -> tuple[list[Launch], list[Launch]]:
    """The launches of a mix on a line both ways, forward and backward."""
    device = torch.device("meta")
    tables, sizes = scan.chunk_tables([Line(T), Line(T, reverse=True)], device)
    weights, scales = ([torch.empty(1, H, n, device=device)] * 2 for n in (T - 1, T))
    keys = [torch.empty(1, 1, T, case.N, device=device, dtype=case.dtype)] * 2
    V = torch.empty(1, H, T, case.P, device=device, dtype=case.dtype)
    given = weights, scales, keys, keys, tables, sizes, False
    with matmul_precision(case.precision), recorded_launches() as forward:
        scan.scan_forward(V, None, *given)
    with matmul_precision(case.precision), recorded_launches() as backward:
        scan.scan_backward(V, None, V, None, *given)
    return forward, backward


def launches_of_grids(case: Case, Z: int = 4, H: int = 12) -> tuple[list[Launch], list[Launch]]:
    """The launches of a mix on a grid from its four corners, forward and backward."""
    device, dags = torch.device("meta"), Grid(case.shape).dags()
    T, E, D = dags[0].num_nodes, dags[0].num_edges, len(dags)
    weight, scale = (torch.empty(D, Z, H, n, device=device) for n in (E, T))
    keys = torch.empty(D, Z, 1, T, case.N, device=device, dtype=case.dtype)
    V = torch.empty(Z, H, T, case.P, device=device, dtype=case.dtype)
    given = V, weight, scale, keys, keys, *sweep.directions(list(dags))
    with matmul_precision(case.precision), recorded_launches() as forward:
        sweep.grid_forward(*given)
    with matmul_precision(case.precision), recorded_launches() as backward:
        sweep.grid_backward(V, *given)
    return forward, backward


def launches_of_graphs(nodes: int, Z: int = 128) -> list[Launch]:
    """The launches that invert the matrices of graphs."""
    with recorded_launches() as launches:
        dense.inverse(torch.empty(Z, nodes, nodes, device="meta"))
    return launches


def name_of(launch: Launch) -> str:
    """The name of a kernel, and whether it is transposed."""
    return f"`{launch.kernel.__name__}`" + (" transposed" if launch.constants.get("TRANSPOSED") else "")


def kernel_table() -> str:
    """Registers, stack and shared memory of each kernel in each case on each GPU, as a table in Markdown."""
    lines = [f"| kernel | case | {' | '.join(TARGETS)} |", "|---|---|" + "---|" * len(TARGETS)]
    launches = [(str(case), forward + backward) for case in CASES for forward, backward in [launches_of(case)]]
    launches += [(f"{nodes} nodes, float32", launches_of_graphs(nodes)) for nodes in GRAPHS]
    for case, of_case in launches:
        for launch in {name_of(launch): launch for launch in of_case}.values():
            needs = [", ".join(map(str, resources_of(launch, target))) for target in TARGETS]
            lines.append(f"| {name_of(launch)} | {case} | {' | '.join(needs)} |")
    return "\n".join(lines)


@contextmanager
def matmul_precision(name: str) -> Generator[None]:
    """Within this context products of float32 have this precision: `torch.set_float32_matmul_precision`."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
