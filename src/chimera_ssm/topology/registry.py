"""Identity of topologies: a key that distinguishes them, and a specification from which any process builds them again.

For a line or a grid both read like the call that builds it, ``Grid((4, 6))``. For listed edges the key has a digest of
the edges, the specification the edges themselves. Compiled programs refer to topologies by these strings alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from chimera_ssm.errors import TopologyError
from chimera_ssm.topology import cache

if TYPE_CHECKING:
    from typing_extensions import Self

Kind = TypeVar("Kind")
Relative = TypeVar("Relative", bound="Identity")


class Identity:
    """An immutable object that is known by its key and shares what is derived from it with all equal ones.

    Args:
        key: the call that builds the object, as text; equal keys mean equal objects.
        num_nodes: T.
        num_edges: E.
        num_parts: number of graphs in a disjoint union, else 1.
        content: further attributes that define the object.
    """

    key: str
    num_nodes: int
    num_edges: int
    num_parts: int
    device: torch.device

    def __init__(self, key: str, num_nodes: int, num_edges: int, num_parts: int = 1, **content: Any):
        # Plain strings and integers in __dict__, which a compiled function guards by their values.
        self.__dict__.update(
            key=key, num_nodes=num_nodes, num_edges=num_edges, num_parts=num_parts, **content,
            device=torch.device("cpu"), _entry=None,
        )  # fmt: skip
        if not torch.compiler.is_dynamo_compiling() and not self.is_traced:
            self._attach()

    @property
    def is_traced(self) -> bool:
        """Whether the number of nodes is symbolic, in a program that is being exported: nothing is then cached."""
        return isinstance(self.num_nodes, torch.SymInt)

    def traced_tensor(self, name: str, device: torch.device) -> torch.Tensor:
        """`tensors` of a topology whose sizes are symbolic, computed in the program itself."""
        raise NotImplementedError(f"a {type(self).__name__} of symbolic size has no {name}: export with fixed sizes")

    def _attach(self) -> cache.Entry:
        content = {name: value for name, value in self.__dict__.items() if name not in ("device", "_entry")}
        entry = cache.entry_of(type(self), content)
        self.__dict__.update(entry.content, _entry=entry)  # equal topologies share their arrays
        return entry

    @property
    def entry(self) -> cache.Entry:
        """The cache entry that equal topologies share."""
        if "_entry" not in self.__dict__:  # a compiled function created it from its key
            self.__dict__["_entry"] = topology_of(self.key).entry
        return self.__dict__["_entry"] or self._attach()  # a compiled function does not attach it

    # Equality, immutability, pickling

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; build a new one instead of setting {name!r}")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Identity) and type(self) is type(other) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (self.spec,)

    @property
    def spec(self) -> str:
        """The whole topology as text, from which `topology_of` builds it again in any process."""
        return self.cached(_spec)

    def _write_spec(self) -> str:
        return self.key

    @classmethod
    def from_spec(cls, *args: Any, **options: Any) -> Self:
        """Build the topology from the arguments in its specification."""
        return cls(*args, **options)

    def to(self, device: torch.device | str) -> Self:
        """The same topology with its tensors on ``device``; the cache entry is shared."""
        device = torch.device(device)
        if device == self.device:
            return self
        moved = object.__new__(type(self))
        moved.__dict__.update(self.__dict__, device=device)
        return moved

    # Derived values

    def cached(
        self,
        function: Callable[..., Any],
        *args: Hashable,
        device: torch.device | None = None,
        limit: int | None = None,
    ) -> Any:
        """The value of ``function(topology, *args)``, computed once and shared by equal topologies.

        Inside a function compiled by PyTorch the value is a constant that depends on the key; there it must consist of
        tensors, numbers and strings.

        Args:
            function: a module-level function of the topology (on the CPU) and of ``args`` alone.
            args: hashable constants.
            device: moves arrays in the value, also within plans and tuples, to this device as tensors. Tensors are
                shared and must not be written to.
            limit: keep only this many results of ``function``, the newest ones; for unbounded ``args``.
        """
        if self.is_traced:
            return function(self, *args)
        if torch.compiler.is_dynamo_compiling():
            (value,) = _constant(self.key, function, device, *args)
            return value.detach() if isinstance(value, torch.Tensor) else value  # dynamo cannot ask a constant's shape
        if device is None:
            return self.entry.find(function, args, lambda: function(self.to("cpu"), *args), limit)
        return self.entry.find(
            (function, device), args, lambda: cache.on_device(self.cached(function, *args, limit=limit), device), limit
        )

    def related(
        self, kind: type[Relative], make: Callable[..., tuple[Relative, ...]], *args: Any
    ) -> tuple[Relative, ...]:
        """The topologies ``make(topology, *args)`` of one kind, cached; a compiled function knows only their keys."""
        if self.is_traced:
            return make(self, *args)
        if torch.compiler.is_dynamo_compiling():
            (contents,) = _constant(self.key, _contents, None, make, *args)
            return tuple([_known(kind, content, self.device) for content in contents])
        # By their text, because True and 1.0 equal 1; bounded, because seeds may differ from step to step.
        relatives = self.entry.find((make, "related"), repr(args), lambda: make(self.to("cpu"), *args), limit=64)
        return relatives if self.device.type == "cpu" else tuple(t.to(self.device) for t in relatives)

    def tensors(self, name: str, device: torch.device) -> Any:
        """The arrays of an attribute, with or without a leading underscore in its name, as tensors on a device.

        They are cached, and must not be written to.
        """
        return self.traced_tensor(name, device) if self.is_traced else self.cached(_attribute, name, device=device)


@torch.compiler.assume_constant_result
def _constant(key: str, function: Callable[..., Any], device: torch.device | None, *args: Any) -> tuple[Any]:
    """A cached value of the topology with this key; called while a function is compiled, and a constant in it.

    In a tuple: PyTorch names a tensor after the function that returned it, and refuses a second one of the same name.
    """
    value = topology_of(key).cached(function, *args, device=device)
    if isinstance(value, torch.Tensor):
        torch._dynamo.mark_static(value)  # its sizes are those of the topology, also where others are symbolic
    return (value,)


def _known(kind: type[Relative], content: tuple[tuple[str, Any], ...], device: torch.device) -> Relative:
    """A topology inside a compiled function, which looks up by its key what is not in ``content``."""
    topology = object.__new__(kind)
    topology.__dict__.update(dict(content), device=device)
    return topology


def _contents(topology: Identity, make: Callable[..., tuple[Identity, ...]], *args: Any) -> tuple:
    """Public attributes (strings, integers and tuples of them) of related topologies."""
    relatives = topology.related(Identity, make, *args)
    return tuple(tuple((name, x) for name, x in t.entry.content.items() if name[0] != "_") for t in relatives)


def _attribute(topology: Identity, name: str) -> Any:
    return getattr(topology, "_" + name if hasattr(topology, "_" + name) else name)


def _spec(topology: Identity) -> str:
    spec = topology._write_spec()
    cache.add_name(spec, topology.entry)
    return spec


# From text to topologies


def topology_of(name: str) -> Any:
    """The topology with this key or specification; cached ones are found again, others are built."""
    entry = cache.find_entry(name)
    if entry is not None:
        return entry.topology()
    topology = _build(name, ast.parse(name, mode="eval").body)
    cache.add_name(name, topology.entry)
    return topology


def restore(spec: str) -> Any:
    """Build a pickled topology from its specification, which is checked: the pickle may be damaged or malicious."""
    try:
        return topology_of(spec)
    except (TopologyError, MemoryError):
        raise
    except Exception as error:  # text that is not a specification may raise anything
        raise TopologyError(f"this is not a pickled topology: {error}; write the file again") from None


def _build(text: str, call: Any) -> Any:
    """The topology of a call in the text; cached ones are found again, also parts of a union."""
    entry = cache.find_entry(text[call.col_offset : call.end_col_offset])
    if entry is not None:
        return entry.topology()
    kind, options = read_call(call, Identity)
    args = [_build(text, arg) if isinstance(arg, ast.Call) else ast.literal_eval(arg) for arg in call.args]
    return kind.from_spec(*args, **options)


def read_call(call: Any, base: type[Kind]) -> tuple[type[Kind], dict[str, Any]]:
    """Class, a descendant of ``base``, and keyword arguments of a parsed call. Only literals are evaluated."""
    kinds = {kind.__name__: kind for kind in _subclasses(base)}
    if call.func.id not in kinds:
        raise ValueError(
            f"there is no class {call.func.id!r} among {', '.join(sorted(kinds))}; import the module that defines it"
        )
    return kinds[call.func.id], {option.arg: ast.literal_eval(option.value) for option in call.keywords}


def _subclasses(kind: type[Kind]) -> Iterator[type[Kind]]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)
