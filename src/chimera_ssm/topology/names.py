"""Names of topologies: strings that tell one from another, and strings that build one again, in any process.

A key is short and says which topology it is; a specification holds all of it. For a line or a grid they are the same, and
read like the call that builds it, ``Grid((4, 6))``; for listed edges the key holds their digest, the specification the
edges themselves. Compiled programs know topologies by these strings alone.
"""

from __future__ import annotations

import ast
from base64 import b64decode, b64encode
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary
from zlib import compress, decompress

import numpy as np

from chimera_ssm.errors import TopologyError

if TYPE_CHECKING:
    from chimera_ssm.topology.base import Topology

Array = np.ndarray

#: Topologies that are alive, by key and by specification: whoever asks again shares what is known of them.
_living: WeakValueDictionary[str, Topology] = WeakValueDictionary()


def digest(num_nodes: int, source: Array, target: Array) -> str:
    """A name for listed edges: equal for equal edges only."""
    return blake2b(_bytes(num_nodes, source, target), digest_size=16).hexdigest()


def encode_edges(num_nodes: int, source: Array, target: Array) -> str:
    """Listed edges as text."""
    return b64encode(compress(_bytes(num_nodes, source, target))).decode()


def decode_edges(num_nodes: int, text: str) -> Array:
    """The reverse, ``[2, E]``."""
    return np.frombuffer(decompress(b64decode(text)), _dtype(num_nodes)).reshape(2, -1)


def _bytes(num_nodes: int, source: Array, target: Array) -> bytes:
    return np.stack([source, target]).astype(_dtype(num_nodes)).tobytes()


def _dtype(num_nodes: int) -> str:
    return "<i4" if num_nodes <= 1 << 31 else "<i8"


def remember(name: str, topology: Topology) -> None:
    """Let `topology_of` find this topology while it lives; the first of several equal ones stays."""
    _living.setdefault(name, topology)


def topology_of(name: str) -> Topology:
    """The topology with this key or specification: a living one if there is one, else built anew and kept a while."""
    living = _living.get(name)
    return _rebuilt(name) if living is None else living


@lru_cache(maxsize=64)
def _rebuilt(name: str) -> Topology:
    return _build(ast.parse(name, mode="eval").body)


def _build(call: Any) -> Topology:
    """The topology that a parsed call stands for. Nothing is evaluated but literals."""
    from chimera_ssm.topology.base import Topology

    kind = {c.__name__: c for c in _subclasses(Topology)}[call.func.id]
    if any(isinstance(argument, ast.Call) for argument in call.args):
        topology = kind(tuple(_build(part) for part in call.args))
    elif len(call.args) == 3:
        return _by_digest(ast.unparse(call))
    else:
        options = {option.arg: ast.literal_eval(option.value) for option in call.keywords}
        topology = kind.from_spec(*(ast.literal_eval(argument) for argument in call.args), **options)
    return _living.get(topology.key, topology)


def _by_digest(key: str) -> Topology:
    if (living := _living.get(key)) is None:
        raise TopologyError(f"{key} is no longer there, and its edges are not known from its key; keep the topology alive")
    return living


def _subclasses(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)
