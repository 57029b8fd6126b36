"""Typed, documented and validated settings: frozen dataclasses whose fields are read from text or YAML."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from math import inf
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from chimera_ssm.errors import unknown_name

S = TypeVar("S", bound="Settings")


def setting(
    default: Any,
    doc: str,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    at_eval: bool = False,
    place: tuple[str, ...] | None = None,
) -> Any:
    """A field of `Settings`.

    Args:
        default: the value if none is given.
        doc: one line for ``--help``.
        least: inclusive lower bound.
        most: inclusive upper bound.
        above: exclusive lower bound.
        below: exclusive upper bound.
        at_eval: whether `chimera eval` may change it.
        place: if not ``None``, the value is the path of a file or folder, unless it is one of these names; a name that
            ends with a colon is a prefix of a path.
    """
    bounds = {"at least": least, "at most": most, "above": above, "below": below}
    bounds = {words: bound for words, bound in bounds.items() if bound is not None}
    metadata = {"doc": doc, "bounds": bounds, "at_eval": at_eval, "place": place}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base class of settings; every field is a `setting` and is validated when an instance is created."""

    def __post_init__(self) -> None:
        for key in keys(type(self)):
            key.check(getattr(self, key.name))


@dataclasses.dataclass(frozen=True)
class Key:
    """A field of `Settings`: its name, type, default, documentation and bounds."""

    name: str
    type: Any
    default: Any
    doc: str
    bounds: Mapping[str, float]
    at_eval: bool
    place: tuple[str, ...] | None

    @property
    def help(self) -> str:
        """The documentation, followed by the choices if there are any."""
        kind = _without_none(self.type) if _is_optional(self.type) else self.type
        return f"{self.doc}; {_describe(self.type)}" if get_origin(kind) is Literal else self.doc

    def parse(self, text: str) -> Any:
        """Parse and validate a value."""
        try:
            value = _parse(text, self.type)
        except (ValueError, OverflowError):
            raise ValueError(f"{self.name} must be {_describe(self.type)}, found {text!r}") from None
        self.check(value)
        return value if self.place is None else _absolute(value, self.place)

    def check(self, value: Any) -> None:
        """Raise ValueError if the type or a bound is violated."""
        if not _fits(value, self.type):
            raise ValueError(f"{self.name} must be {_describe(self.type)}, found {value!r}")
        numbers = value if isinstance(value, tuple) else (value,)
        for number in numbers:
            for words, bound in self.bounds.items():
                if number is not None and not _HOLDS[words](number, bound):
                    raise ValueError(f"{self.name} must be {words} {bound}, found {number}")


_HOLDS = {
    "at least": lambda value, bound: value >= bound,
    "at most": lambda value, bound: value <= bound,
    "above": lambda value, bound: value > bound,
    "below": lambda value, bound: value < bound,
}


def keys(cls: type[Settings]) -> list[Key]:
    """The fields of settings, in order."""
    types = get_type_hints(cls)
    return [Key(f.name, types[f.name], f.default, **f.metadata) for f in dataclasses.fields(cls)]


def from_dict(cls: type[S], values: Mapping[str, Any]) -> S:
    """Settings from plain values, as in a YAML file; unknown keys are refused."""
    known = {key.name: key for key in keys(cls)}
    for name in values:
        if name not in known:
            raise ValueError(unknown_name("setting", name, known))
    return cls(**{name: _from_plain(value, known[name].type) for name, value in values.items()})


def as_dict(settings: Settings) -> dict[str, Any]:
    """Plain values for a YAML file; the inverse of `from_dict`."""
    plain = {key.name: getattr(settings, key.name) for key in keys(type(settings))}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def _parse(text: str, kind: Any) -> Any:
    if _is_optional(kind):
        return None if text.lower() in ("none", "") else _parse(text, _without_none(kind))
    if get_origin(kind) is Literal:
        return text
    if get_origin(kind) is tuple:
        return tuple(_parse(part, inner) for part, inner in zip(text.split(","), get_args(kind), strict=True))
    if kind is bool:
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(text.lower(), text)
    if kind is int:
        number = float(text)
        return int(text) if text.lstrip("+-").isdigit() or number != int(number) else int(number)  # 1e3 is whole
    return kind(text)


def _absolute(text: str, names: tuple[str, ...]) -> str:
    """The absolute path of an existing file or folder; any other text unchanged."""
    prefix = next((name for name in names if name.endswith(":") and text.startswith(name)), "")
    path = Path(text.removeprefix(prefix)).expanduser()
    is_name = not text or text in names or not path.exists()
    return text if is_name else f"{prefix}{path.absolute()}"


def _fits(value: Any, kind: Any) -> bool:
    if _is_optional(kind):
        return value is None or _fits(value, _without_none(kind))
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(_fits, value, inner))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and -inf < value < inf
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _from_plain(value: Any, kind: Any) -> Any:
    return tuple(value) if get_origin(kind) is tuple and isinstance(value, list) else value


def _is_optional(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind)


def _without_none(kind: Any) -> Any:
    (inner,) = (part for part in get_args(kind) if part is not NoneType)
    return inner


def _describe(kind: Any) -> str:
    if _is_optional(kind):
        return f"{_describe(_without_none(kind))}, or none"
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if get_origin(kind) is tuple:
        return f"{len(get_args(kind))} values with commas between"
    return {int: "a whole number", float: "a finite number", bool: "true or false", str: "text"}[kind]
