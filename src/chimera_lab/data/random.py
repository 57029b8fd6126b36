"""Random generators that are seeded by their purpose and hold no history."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from hashlib import blake2b

import torch


def seed_of(*parts: int | str) -> int:
    """A 63-bit seed that is a fixed function of ``parts``, the same on every machine and in every process."""
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "little") >> 1


def generator(*parts: int | str) -> torch.Generator:
    """A CPU generator that depends on ``parts`` alone."""
    return torch.Generator().manual_seed(seed_of(*parts))


@contextmanager
def seeded(*parts: int | str) -> Generator[None]:
    """Within, PyTorch's CPU generator depends on ``parts`` alone; afterwards it is as before."""
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(seed_of(*parts))
        yield
