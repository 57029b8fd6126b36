"""Operation counts that solvers share."""

#: Nodes of a chunk of a scan in PyTorch.
CHUNK = 32


def scan_mix_work(nodes: int, N: int, P: int, groups_per_head: float) -> float:
    """Multiplications of a mix on a directed path by chunks and states, per head."""
    return 2 * nodes * (min(CHUNK, nodes) * (P + N * groups_per_head) + 2 * N * P)
