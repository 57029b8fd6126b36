"""GPUs: their data sheets, and assumptions about how much of it is reached."""

from __future__ import annotations

from dataclasses import dataclass

from chimera_ssm.errors import unknown_name

TERA, GIGA, GIB = 1e12, 1e9, 2**30


@dataclass(frozen=True)
class Hardware:
    """A device: its data sheet, and the assumed efficiency.

    Attributes:
        name: name of the device.
        half_rate: FLOP/s of dense matrix products in 16 bits with 32-bit accumulation.
        single_rate: FLOP/s of matrix products in 32 bits; TF32 is off by default in PyTorch.
        bandwidth: memory bandwidth, bytes/s.
        memory: bytes.
        link: bytes/s to another device of the same machine, in one direction.
        price: US dollars per hour, assumed from typical cloud prices.
        bf16: whether it computes in bfloat16.
        matmul_efficiency: assumed fraction of the peak FLOP/s that matrix products reach.
        bandwidth_efficiency: assumed fraction of the bandwidth that other operations reach.
        launch_seconds: assumed minimum time from the start of an operation to the start of the next.
    """

    name: str
    half_rate: float
    single_rate: float
    bandwidth: float
    memory: float
    link: float
    price: float
    bf16: bool = True
    matmul_efficiency: float = 0.5
    bandwidth_efficiency: float = 0.7
    launch_seconds: float = 5e-6

    @property
    def tf32_rate(self) -> float:
        """FLOP/s of products in TF32: half of those in 16 bits on GPUs that have it, which are those with bfloat16."""
        return self.half_rate / 2 if self.bf16 else self.single_rate


#: Assumed bytes/s from a device to one of another machine, in one direction: 200 Gbit/s for each device.
NETWORK = 25 * GIGA

#: FLOP/s without sparsity. Links are in one direction, for NVLink half of what data sheets say; the others have PCIe.
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
