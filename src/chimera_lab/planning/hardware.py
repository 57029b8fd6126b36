"""GPUs: what their makers say of them, and what is assumed of their use."""

from __future__ import annotations

from dataclasses import dataclass

from chimera_ssm.errors import unknown_name

TERA, GIGA, GIB = 1e12, 1e9, 2**30


@dataclass(frozen=True)
class Hardware:
    """A device, by its data sheet, and how much of it is assumed to be reached.

    Attributes:
        name: of the device.
        half: FLOP/s of dense matrix products in 16 bits that are added up in 32.
        single: FLOP/s of matrix products in 32 bits; PyTorch leaves TF32 off.
        bandwidth: of its memory, bytes/s.
        memory: bytes.
        link: bytes/s to another device of the same machine, one way.
        price: US dollars an hour: an assumption, about what clouds ask.
        bf16: whether its 16 bits may be bfloat16.
        products: part of the peak FLOP/s that matrix products reach: an assumption.
        traffic: part of the bandwidth that other operations reach: an assumption.
        launch: seconds from the start of an operation to the start of the next at least: an assumption.
    """

    name: str
    half: float
    single: float
    bandwidth: float
    memory: float
    link: float
    price: float
    bf16: bool = True
    products: float = 0.5
    traffic: float = 0.7
    launch: float = 5e-6


#: Bytes/s from a device to one of another machine, one way: 200 Gbit/s for each device. An assumption.
NETWORK = 25 * GIGA

#: Data sheets: FLOP/s without sparsity. NVLink is counted one way, half of what the sheets say; the others have PCIe.
GPUS = {
    gpu.name: gpu
    for gpu in (
        Hardware("t4", 65 * TERA, 8.1 * TERA, 300 * GIGA, 16 * GIB, 16 * GIGA, 0.50, bf16=False),
        Hardware("v100", 125 * TERA, 15.7 * TERA, 900 * GIGA, 32 * GIB, 150 * GIGA, 2.00, bf16=False),
        Hardware("rtx4090", 165 * TERA, 82.6 * TERA, 1008 * GIGA, 24 * GIB, 32 * GIGA, 0.60),
        Hardware("l4", 121 * TERA, 30.3 * TERA, 300 * GIGA, 24 * GIB, 32 * GIGA, 0.80),
        Hardware("a100-40gb", 312 * TERA, 19.5 * TERA, 1555 * GIGA, 40 * GIB, 300 * GIGA, 1.50),
        Hardware("a100", 312 * TERA, 19.5 * TERA, 2039 * GIGA, 80 * GIB, 300 * GIGA, 2.00),
        Hardware("h100", 989 * TERA, 67 * TERA, 3350 * GIGA, 80 * GIB, 450 * GIGA, 3.00),
    )
}


def find_gpu(name: str) -> Hardware:
    """A GPU by name."""
    if name not in GPUS:
        raise ValueError(unknown_name("GPU", name, GPUS))
    return GPUS[name]
