"""A wall that can be felt: an object behind a protocol, with the attributes of the protocol and no others.

What its methods hand out is behind the protocols that their annotations name; what they are given reaches the other side behind the
protocols of their arguments. What comes back to the side that it came from is itself again.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

__all__ = ["Proxy", "attributes", "behind", "bare"]

Convert = Callable[[Any], Any]


def is_protocol(annotation: Any) -> bool:
    return isinstance(annotation, type) and bool(getattr(annotation, "_is_protocol", False))


@cache
def attributes(protocol: type) -> Mapping[str, Any]:
    """The public attributes of a protocol: a function for a method, otherwise the annotation of the value."""
    found: dict[str, Any] = {}
    for cls in reversed(protocol.__mro__):
        if not is_protocol(cls):
            continue
        found.update(typing.get_type_hints(cls))
        for name, member in vars(cls).items():
            if inspect.isfunction(member):
                found[name] = member
            elif isinstance(member, property):
                found[name] = typing.get_type_hints(member.fget)["return"]
    return {name: member for name, member in found.items() if not name.startswith("_")}


class Proxy:
    """An object behind a protocol; made by `behind`."""

    __slots__ = ("_kept", "_protocol", "_value")

    def __init__(self, value: Any, protocol: type, kept: dict[Any, Proxy]) -> None:
        object.__setattr__(self, "_value", value)
        object.__setattr__(self, "_protocol", protocol)
        object.__setattr__(self, "_kept", kept)

    def __getattr__(self, name: str) -> Any:
        member = self._member(name)
        found = getattr(self._value, name)
        return _method(found, member, self._kept) if inspect.isfunction(member) else _out(member, self._kept)(found)

    def __setattr__(self, name: str, value: Any) -> None:
        member = self._member(name)
        if inspect.isfunction(member) or isinstance(inspect.getattr_static(self._protocol, name, None), property):
            raise AttributeError(f"{self._protocol.__name__}.{name} cannot be set from the other side of the wall")
        setattr(self._value, name, _out(member, self._kept)(value))

    def _member(self, name: str) -> Any:
        known = attributes(self._protocol)
        if name not in known:
            raise AttributeError(
                f"{self._protocol.__name__} has no {name!r}: somebody reached through the wall to {type(self._value).__name__}"
            )
        return known[name]

    def __eq__(self, other: object) -> bool:
        return bare(self) == bare(other)

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return f"<{self._protocol.__name__}: {self._value!r}>"


def behind(value: Any, protocol: type, kept: dict[Any, Proxy] | None = None) -> Any:
    """An object with the attributes of a protocol only; the same one each time where `kept` is the same. A proxy gives its own object."""
    if value is None or isinstance(value, Proxy):
        return bare(value)
    kept = {} if kept is None else kept
    key = (id(value), protocol)
    if key not in kept:
        kept[key] = Proxy(value, protocol, kept)
    return kept[key]


def bare(value: Any) -> Any:
    """The object itself."""
    return value._value if isinstance(value, Proxy) else value


def _method(function: Callable[..., Any], declared: Callable[..., Any], kept: dict[Any, Proxy]) -> Callable[..., Any]:
    hints = typing.get_type_hints(declared)
    names = list(inspect.signature(declared).parameters)[1:]
    given = [_out(hints.get(name, Any), kept) for name in names]
    result = _out(hints.get("return", Any), kept)
    by_name = dict(zip(names, given, strict=True))

    def call(*args: Any, **kwargs: Any) -> Any:
        converted = [convert(value) for convert, value in zip(given, args, strict=False)]
        if len(args) > len(given) or not kwargs.keys() <= by_name.keys():
            raise TypeError(f"{declared.__qualname__} takes {names}; got {len(args)} arguments and {sorted(kwargs)}")
        return result(function(*converted, **{name: by_name[name](value) for name, value in kwargs.items()}))

    return call


def _out(annotation: Any, kept: dict[Any, Proxy]) -> Convert:
    """What an object of this type is on the other side of the wall."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if is_protocol(annotation):
        return lambda value: behind(value, annotation, kept)
    if isinstance(annotation, type) and crossing(annotation):
        return lambda value: _dataclass(value, crossing(annotation), kept)
    if origin is Callable or origin is typing.get_origin(Callable[[], Any]):
        return lambda value: _function(value, parts, kept)
    if origin in (list, Sequence):
        inner = _out(parts[0], kept)
        return lambda value: [inner(item) for item in value] if inner is not _same else value
    if origin in (types.UnionType, typing.Union):
        inside = [convert for convert in (_out(part, kept) for part in parts) if convert is not _same]
        return inside[0] if inside else _same
    return _same


def _same(value: Any) -> Any:
    return value


@cache
def crossing(cls: type) -> Mapping[str, type]:
    """The fields of a dataclass of the wall that hold something behind a protocol."""
    if not dataclasses.is_dataclass(cls) or not cls.__module__.startswith("simdist.runtime."):
        return {}
    return {name: hint for name, hint in typing.get_type_hints(cls).items() if is_protocol(hint)}


def _dataclass(value: Any, fields: Mapping[str, type], kept: dict[Any, Proxy]) -> Any:
    """The same values, those of protocols on the other side."""
    if value is None:
        return None
    return dataclasses.replace(value, **{name: behind(getattr(value, name), hint, kept) for name, hint in fields.items()})


def _function(function: Any, parts: Sequence[Any], kept: dict[Any, Proxy]) -> Any:
    """A function that is called from the other side: what it is given crosses, and what it returns."""
    if function is None or not parts or not isinstance(parts[0], list):
        return function
    given, result = [_out(part, kept) for part in parts[0]], _out(parts[1], kept)
    if all(convert is _same for convert in (*given, result)):
        return function

    def call(*args: Any) -> Any:
        return result(function(*[convert(value) for convert, value in zip(given, args, strict=True)]))

    return call
