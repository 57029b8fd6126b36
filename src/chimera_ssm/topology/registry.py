"""Names of topologies: strings that tell one from another, and strings that build one again, in any process.

A key is short and says which topology it is; a specification holds all of it. For a line or a grid they are the same,
and read like the call that builds it, ``Grid((4, 6))``; for listed edges the key holds their digest, the specification
the edges themselves. Compiled programs know topologies by these strings alone.
"""

from __future__ import annotations

import ast
from base64 import b64decode, b64encode
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary
from zlib import compress, decompress

import numpy as np

from chimera_ssm.errors import TopologyError

if TYPE_CHECKING:
    from chimera_ssm.topology.base import Topology

Array = np.ndarray
Kind = TypeVar("Kind")

#: Topologies that are alive, by key and by specification: whoever asks again shares what is known of them.
_living: WeakValueDictionary[str, Topology] = WeakValueDictionary()


def digest(num_nodes: int, source: Array, target: Array) -> str:
    """A name for listed edges: equal for equal edges only."""
    return blake2b(_bytes(num_nodes, source, target), digest_size=16).hexdigest()


def encode_edges(num_nodes: int, source: Array, target: Array) -> str:
    """EdgeList edges as text."""
    return b64encode(compress(_bytes(num_nodes, source, target))).decode()


def decode_edges(num_nodes: int, text: str) -> Array:
    """The reverse, ``[2, E]``."""
    return np.frombuffer(decompress(b64decode(text)), _dtype(num_nodes)).reshape(2, -1)


def _bytes(num_nodes: int, source: Array, target: Array) -> bytes:
    return np.stack([source, target]).astype(_dtype(num_nodes)).tobytes()


def _dtype(num_nodes: int) -> str:
    return "<i4" if num_nodes <= 1 << 31 else "<i8"


def remember(name: str, topology: Topology) -> None:
    """Let `topology_of` find this topology while it lives; the first of several equal ones stays with the others."""
    first = _living.setdefault(name, topology)
    if first is not topology:
        topology._kept["first", name] = first


def topology_of(name: str) -> Topology:
    """The topology with this key or specification: a living one if there is one, else built anew and kept a while."""
    living = _living.get(name)
    return _rebuilt(name) if living is None else living


@lru_cache(maxsize=64)
def _rebuilt(name: str) -> Topology:
    return _parse(name)


def _parse(name: str) -> Topology:
    from chimera_ssm.topology.base import Topology

    return _build(name, ast.parse(name, mode="eval").body, Topology)


def restore(spec: str, orders: tuple[bytes | None, ...]) -> Topology:
    """The topology that was pickled as its specification and the elimination orders of its parts, if these are known.

    Everything is checked as if a user had typed it: the pickle may be damaged, or made to do damage.
    """
    try:
        topology = _living.get(spec) or _parse(spec)
        parts = list(zip(topology.parts, orders, strict=True))
        known = [(part, np.frombuffer(order, "<i4")) for part, order in parts if order is not None]
    except (TopologyError, MemoryError):
        raise
    except Exception as error:  # of text that is no specification, anything
        raise TopologyError(f"this is no pickled topology: {error}; make the file anew") from None
    for part, order in known:
        part.adopt_order(order)
    return topology


def _build(text: str, call: Any, base: type[Topology]) -> Topology:
    """The topology that a call in the text stands for; living ones are found again, parts of a union, too."""
    if (living := _living.get(text[call.col_offset : call.end_col_offset])) is not None:
        return living
    kind, options = read_call(call, base)
    args = [_build(text, x, base) if isinstance(x, ast.Call) else ast.literal_eval(x) for x in call.args]
    topology = kind.from_spec(*args, **options)
    return _living.get(topology.key, topology)


def read_call(call: Any, base: type[Kind]) -> tuple[type[Kind], dict[str, Any]]:
    """Class, a descendant of ``base``, and keyword arguments of a parsed call. Only literals are evaluated."""
    kinds = {kind.__name__: kind for kind in _subclasses(base)}
    if call.func.id not in kinds:
        raise ValueError(
            f"there is no {base.__name__} of the name {call.func.id!r}; import the module that defines it first"
        )
    return kinds[call.func.id], {option.arg: ast.literal_eval(option.value) for option in call.keywords}


def _subclasses(kind: type[Kind]) -> Iterator[type[Kind]]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)
