"""What a compiled kernel needs, on GPUs that need not be there: registers, stack and shared memory."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from chimera_ssm.gpu.launch import Launch

TARGETS = {
    "sm80": GPUTarget("cuda", 80, 32),
    "sm90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
_OPTIONS = ("num_warps", "num_stages")
_TYPES = {
    torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.int32: "*i32", torch.int64: "*i64",
}  # fmt: skip


class Resources(NamedTuple):
    """Needs of one program.

    Attributes:
        registers: of each thread.
        stack: bytes of each thread that do not fit into registers.
        shared: bytes of shared memory.
    """

    registers: int
    stack: int
    shared: int


def resources_of(launch: Launch, target: str) -> Resources:
    """Compile the kernel of a launch for one of `TARGETS`."""
    signature, constants = _signature(launch)
    pointers = [name for name, kind in signature.items() if kind.startswith("*")]
    names = launch.kernel.arg_names
    source = ASTSource(
        fn=launch.kernel,
        signature=signature | dict.fromkeys(constants, "constexpr"),
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in pointers},
    )
    options = {name: value for name, value in launch.constants.items() if name in _OPTIONS}
    compiled = triton.compile(source, target=TARGETS[target], options=options)
    registers, stack = _of_amd(compiled) if "amdgcn" in compiled.asm else _of_nvidia(compiled)
    return Resources(registers, stack, compiled.metadata.shared)


def _signature(launch: Launch) -> tuple[dict[str, str], dict[str, Any]]:
    """Types of the arguments, and values of the constants; a missing tensor is a constant."""
    given = dict(zip(launch.kernel.arg_names, launch.args, strict=False)) | launch.constants
    signature, constants = {}, {}
    for parameter in launch.kernel.params:
        value = given[parameter.name]
        if parameter.is_constexpr or value is None:
            constants[parameter.name] = value
        else:
            signature[parameter.name] = _TYPES[value.dtype] if isinstance(value, torch.Tensor) else "i32"
    return signature, constants


def _of_nvidia(compiled: Any) -> tuple[int, int]:
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        report = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    registers, stack = (re.findall(rf"{name}:(\d+)", report) for name in ("REG", "STACK"))
    return max(map(int, registers)), max(map(int, stack))


def _of_amd(compiled: Any) -> tuple[int, int]:
    report = compiled.asm["amdgcn"]
    registers, stack = (re.findall(rf"{name}: *(\d+)", report) for name in (r"\.vgpr_count", "ScratchSize"))
    return max(map(int, registers)), max(map(int, stack))
