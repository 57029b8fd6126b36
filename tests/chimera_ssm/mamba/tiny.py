"""Tiny models of the six families of ``transformers`` with Mamba-2 layers, hybrids with attention."""

import torch
import transformers

_SIZES = {"vocab_size": 99, "hidden_size": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
_ATTENTION = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
_MAMBA = {
    "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 16, "mamba_n_groups": 2, "mamba_chunk_size": 16,
    "mamba_expand": 2,
}  # fmt: skip
MODELS = {
    "Mamba2": {
        "num_hidden_layers": 2, "num_heads": 8, "head_dim": 8, "state_size": 16, "n_groups": 2, "chunk_size": 16,
    },
    "Bamba": {"num_hidden_layers": 2, "attn_layer_indices": [1], **_ATTENTION, **_MAMBA},
    "GraniteMoeHybrid": {
        "num_hidden_layers": 2, "layer_types": ["mamba", "attention"], "num_local_experts": 4,
        "num_experts_per_tok": 2, "shared_intermediate_size": 48, **_ATTENTION, **_MAMBA,
    },
    "Zamba2": {
        "num_hidden_layers": 2, "layers_block_type": ["mamba", "hybrid"], "num_mem_blocks": 1, "use_mem_rope": True,
        "n_mamba_heads": 8, "mamba_headdim": 8, "mamba_d_state": 16, "mamba_ngroups": 2, "chunk_size": 16,
        **_ATTENTION, "num_key_value_heads": 4,
    },
    "NemotronH": {
        "layers_block_type": ["mamba", "attention", "mamba", "moe"], "head_dim": 8, "mamba_num_heads": 8,
        "mamba_head_dim": 8, "ssm_state_size": 16, "n_groups": 2, "chunk_size": 16, "n_routed_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 16, "moe_shared_expert_intermediate_size": 16, "n_group": 1,
        "topk_group": 1, **_ATTENTION,
    },
    "FalconH1": {"num_hidden_layers": 2, "mamba_d_ssm": 64, "head_dim": 8, **_ATTENTION, **_MAMBA},
}  # fmt: skip


def model_of(family):
    """A model with random weights, always the same, in evaluation mode."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = getattr(transformers, f"{family}Config")(**_SIZES, **MODELS[family])
        return getattr(transformers, f"{family}ForCausalLM")(config).eval()


def tokens(rows=2, length=37):
    """Token numbers, without padding."""
    return torch.randint(2, 99, (rows, length), generator=torch.Generator().manual_seed(0))
