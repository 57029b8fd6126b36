"""A roofline of mixes by Triton kernels: launches, bytes and operations are counted, times estimated. No GPU is needed.

A launch takes as long as the slowest of three: its matrix products; reading or writing each of its tensors once; and
the time between two launches. What programs read again is assumed to come from caches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor

from chimera_lab.planning.hardware import GIGA, GPUS, Hardware
from chimera_lab.planning.kernels import matmul_precision
from chimera_lab.planning.mixes import MixCall
from chimera_lab.planning.traffic import Traffic
from chimera_ssm.gpu.availability import assume_gpu
from chimera_ssm.gpu.launch import Launch, recorded_launches
from chimera_ssm.ops import Solver, mix
from chimera_ssm.ops.custom_ops import solver_of
from chimera_ssm.topology import Graph, Grid, Line, Topology, batch
from chimera_ssm.topology.registry import topology_of


class Case(NamedTuple):
    """A mix whose topologies share B and C, and all of whose heads do."""

    name: str
    topologies: list[Topology]
    Z: int
    H: int
    N: int
    P: int


CASES = (
    Case("grid 14×14, four corners", [*Grid((14, 14)).dags()], 128, 24, 96, 64),
    Case("grid 64×64, four corners", [*Grid((64, 64)).dags()], 1, 12, 64, 64),
    Case("line of 128, both ways", [Line(128), Line(128, reverse=True)], 128, 24, 64, 64),
    Case("line of 4,096, both ways", [Line(4096), Line(4096, reverse=True)], 1, 12, 64, 64),
)


@dataclass(frozen=True)
class Work:
    """What a pass of a mix does, and the time that it would take.

    Attributes:
        kernels: launches of our kernels.
        launches: of our kernels and of PyTorch's.
        bytes_moved: by both.
        flops: of the matrix products of our kernels, padding included.
        seconds: estimated.
    """

    kernels: int
    launches: int
    bytes_moved: float
    flops: float
    seconds: float


def roofline_table(gpu: str = "a100") -> str:
    """Launches, bytes, operations and estimated times of each case, as a table in Markdown."""
    device = GPUS[gpu]
    lines = [
        f"Estimates for {gpu.upper()}, nothing was measured: V, B and C in bfloat16, masks in tf32, as after",
        'torch.set_float32_matmul_precision("high"); attention is flash attention in bfloat16 on as many heads.',
        "",
        "| mix | pass | launches | MB moved | GFLOP | estimated ms | attention, estimated ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        attention = _attention_seconds(case, device)
        for name, work, theirs in zip(("forward", "backward"), passes_of(case, device), attention, strict=True):
            sizes = f"Z {case.Z}, H {case.H}, N {case.N}, P {case.P}"
            lines.append(_row(f"{case.name}, {sizes}", name, work, f"{1e3 * theirs:.2f}"))
    for name, work in zip(("forward", "backward"), passes_of(_graphs(), device), strict=True):
        lines.append(_row("32 rings of 150 nodes, H 4, N 16, P 16", name, work, ""))
    return "\n".join(lines)


def _graphs() -> Case:
    """A mix on a batch of graphs."""
    ring = Graph(150, [[*range(150)] * 2, [*range(1, 150), 0, 149, *range(149)]])
    return Case("rings", [batch([ring] * 32)], 1, 4, 16, 16)


def _row(case: str, name: str, work: Work, attention: str) -> str:
    numbers = f"{work.launches} | {work.bytes_moved / 1e6:,.0f} | {work.flops / GIGA:,.0f} | {1e3 * work.seconds:.2f}"
    return f"| {case} | {name} | {numbers} | {attention} |"


def passes_of(case: Case, device: Hardware) -> tuple[Work, Work]:
    """The work of the forward and the backward pass."""
    T = case.topologies[0].num_nodes

    def tensor(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        return torch.empty(case.Z, *shape, dtype=dtype, device="meta", requires_grad=True)

    C, B, V = tensor(1, T, case.N), tensor(1, T, case.N), tensor(case.H, T, case.P)
    weights, scales = ([tensor(case.H, n, dtype=torch.float32) for n in sizes] for sizes in _sizes(case.topologies))
    count = len(case.topologies)
    return passes_of_mix(case.topologies, [V, *weights, *[C] * count, *[B] * count, *scales], None, device)


def passes_of_mix(
    topologies: list[Topology], tensors: list[Tensor], solver: Solver | None, device: Hardware, precision: str = "high"
) -> tuple[Work, Work]:
    """The work of both passes of a mix of V, weights, Cs, Bs and scales on ``meta``, as on a GPU.

    ``precision`` is that of products of float32.
    """
    V, *rest = tensors
    n = len(topologies)
    weights, Cs, Bs, scales = (rest[k : k + n] for k in range(0, 4 * n, n))
    distinct = list({id(x): x for x in tensors}.values())
    with assume_gpu(), matmul_precision(precision):
        with recorded_launches() as forward, Traffic() as of_forward:
            y = mix(topologies, weights, Cs, Bs, V, scales or None, solver)
        with recorded_launches() as backward, Traffic() as of_backward:
            torch.autograd.grad(y, distinct, torch.empty_like(y))
    return _work(forward, of_forward, device), _work(backward, of_backward, device)


@lru_cache(maxsize=256)
def mix_seconds(call: MixCall, micro: int, samples: int, device: Hardware, precision: str) -> float | None:
    """Estimated seconds of both passes of a mix with ``micro`` samples, which was seen with ``samples``.

    ``None`` if there are no Triton kernels for it.
    """
    topologies = [topology_of(name) for name in call.topologies.split(";")]
    try:
        passes = passes_of_mix(topologies, call.tensors(micro, samples), solver_of(call.solver), device, precision)
    except (NotImplementedError, RuntimeError):  # it looks at values, as solvers do that pivot
        return None
    return sum(work.seconds for work in passes) if passes[0].kernels else None


def _sizes(topologies: list[Topology]) -> tuple[list[int], list[int]]:
    return [t.num_edges for t in topologies], [t.num_nodes for t in topologies]


def _work(launches: list[Launch], others: Traffic, device: Hardware) -> Work:
    """Our launches, and what PyTorch does around them."""
    bandwidth = device.bandwidth_efficiency * device.bandwidth
    moved = [sum(x.numel() * x.element_size() for x in launch.args if isinstance(x, Tensor)) for launch in launches]
    flops = [kernel_flops(launch) for launch in launches]
    rates = [_rates(launch, device) for launch in launches]
    quotients = [sum(n / rate for n, rate in zip(*pair, strict=True)) for pair in zip(flops, rates, strict=True)]
    products = [seconds / device.matmul_efficiency for seconds in quotients]
    ours = [max(a, b / bandwidth, device.launch_seconds) for a, b in zip(products, moved, strict=True)]
    half, single = others.half_flops / device.half_rate, others.single_flops / device.tf32_rate
    theirs = max((half + single) / device.matmul_efficiency, others.product_bytes / bandwidth)
    theirs += others.bytes_moved / bandwidth
    theirs = max(theirs, others.operations * device.launch_seconds)
    count = len(launches)
    bytes_moved = sum(moved) + others.bytes_moved + others.product_bytes
    return Work(count, count + others.operations, bytes_moved, sum(map(sum, flops)), sum(ours) + theirs)


def _rates(launch: Launch, device: Hardware) -> Flops:
    """FLOP/s of the products of a kernel."""
    single = device.tf32_rate if launch.constants.get("PREC") == "tf32" else device.single_rate
    half = str(launch.constants.get("LOW")) in ("bf16", "fp16")
    return Flops(device.half_rate if half else single, single, device.single_rate)


def _attention_seconds(case: Case, device: Hardware) -> tuple[float, float]:
    """Flash attention: two products forward, five backward; V and its like read or written four and eight times."""
    T, heads = case.topologies[0].num_nodes, case.Z * case.H

    def seconds(products: int, tensors: int) -> float:
        flops, moved = 2 * products * heads * T * T * case.P, 2 * tensors * heads * T * case.P
        rates = device.matmul_efficiency * device.half_rate, device.bandwidth_efficiency * device.bandwidth
        return max(flops / rates[0], moved / rates[1], device.launch_seconds)

    return seconds(2, 4), seconds(5, 8)


# FLOPs of each kernel


class Flops(NamedTuple):
    """FLOPs of matrix products, padding included; or FLOP/s.

    Attributes:
        operands: of V, B, C and their gradients, in their dtype, or float32 as PyTorch's setting says.
        masks: of masks alone: float32 as PyTorch's setting says.
        full: in full float32.
    """

    operands: float = 0.0
    masks: float = 0.0
    full: float = 0.0


def kernel_flops(launch: Launch) -> Flops:
    """FLOPs of a launch."""
    named = dict(zip(launch.kernel.arg_names, launch.args, strict=False)) | launch.constants
    formula = _FLOPS.get(launch.kernel.__name__)
    return Flops() if formula is None else formula(SimpleNamespace(programs=prod(launch.grid), **named))


def _visits(a: SimpleNamespace) -> float:
    """Rows that all blocks visit, for all heads and DAGs: the mean of both directions."""
    blocks = -(-a.height * a.WP // a.BI)
    down = sum(min((k * a.BI + a.BI - 1) // a.WP, a.height - 1) + 1 for k in range(blocks))
    up = sum(a.height - k * a.BI // a.WP for k in range(blocks))
    return a.heads * a.w.shape[0] * (down + up) / 2


def _of_rows(a: SimpleNamespace, *widths: int) -> float:
    return 2 * _visits(a) * a.BI * a.WP * sum(widths)


def _of_stored(a: SimpleNamespace) -> Flops:
    """Masks of DAGs with the same vertical direction are added in pairs before the product."""
    pairs = -(-a.downs // 2) - (a.downs - a.D) // 2
    return Flops(a.PB * _of_rows(a, a.BP) * pairs / a.D, a.PB * _of_rows(a, 2 * a.WP) * pairs / a.D)


def _of_outputs(a: SimpleNamespace) -> Flops:
    through_states = a.NB * a.BN * a.BP if a.STATES else 0
    return Flops(2 * a.programs * a.Q * (a.Q * a.NB * a.BN + a.each * (a.Q * a.BP + through_states)))


def _of_keys(a: SimpleNamespace) -> Flops:
    through_states = a.PB * a.BP * a.BN if a.STATES else 0
    return Flops(2 * a.programs * a.Q * a.each * (a.Q * (a.PB * a.BP + a.BN) + through_states))


def _of_weights(a: SimpleNamespace) -> Flops:
    operands = a.NB * a.BN + a.each * a.PB * a.BP
    return Flops(2 * a.programs * a.Q**2 * operands, full=2 * a.programs * a.each * a.Q**3)


def _of_inverse(a: SimpleNamespace) -> Flops:
    columns = -(-a.S // a.BC) * a.BC
    return Flops(full=2 * a.programs * -(-a.S // 16) * 16 * a.SP * (columns + 16))


_FLOPS: dict[str, Callable[[SimpleNamespace], Flops]] = {
    "grid_outputs": lambda a: Flops(_of_rows(a, a.PB * a.NB * a.BN, a.PB * a.BP), _of_rows(a, a.PB * a.WP)),
    "grid_value_gradients": lambda a: Flops(_of_rows(a, a.PB * a.NB * a.BN, a.PB * a.BP), _of_rows(a, a.PB * a.WP)),
    "stored_outputs": _of_stored,
    "stored_value_gradients": _of_stored,
    "stored_score_gradients": lambda a: Flops(masks=_of_rows(a, a.WP)),
    "grid_key_gradients": lambda a: Flops(_of_rows(a, a.NB * a.PB * a.BP, a.NB * a.BN), _of_rows(a, a.NB * a.WP)),
    "grid_weight_gradients": lambda a: Flops(
        0.0 if a.STORED else _of_rows(a, a.NB * a.BN, a.PB * a.BP), _of_rows(a, 2 * a.WP)
    ),
    "chunk_states": lambda a: Flops(2 * a.programs * a.Q * a.BN * a.BP),
    "chunk_outputs": _of_outputs,
    "chunk_value_gradients": _of_outputs,
    "chunk_key_gradients": _of_keys,
    "chunk_weight_gradients": _of_weights,
    "invert": _of_inverse,
}
