"""Mamba-2 on CPUs: the functions of ``mamba_ssm`` and ``causal_conv1d``, and models of ``transformers`` on them."""

from chimera_ssm.mamba.accelerate import Accelerated, accelerate
from chimera_ssm.mamba.conv import causal_conv1d_fn, causal_conv1d_update
from chimera_ssm.mamba.scan import mamba_chunk_scan_combined
from chimera_ssm.mamba.step import selective_state_update

__all__ = [
    "Accelerated",
    "accelerate",
    "causal_conv1d_fn",
    "causal_conv1d_update",
    "mamba_chunk_scan_combined",
    "selective_state_update",
]
