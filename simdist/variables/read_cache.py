"""The scope in which each variable of a strategy is read once; later reads give the value of the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from simdist.errors import InvalidArgumentError
from simdist.process_state import TaskLocal
from simdist.program.operations import Reference, VariableHandle
from simdist.program.tracing import Tracer

__all__ = ["cached_read", "reading_once"]

Value = TypeVar("Value")


class _Reads:
    """What was read so far: by the step that reads (None: no step) and the variable."""

    def __init__(self, store: object) -> None:
        self.store = store
        self.values: dict[tuple[Tracer | None, Reference], object] = {}


_open: TaskLocal[_Reads | None] = TaskLocal(lambda: None)


@contextmanager
def reading_once(store: object) -> Iterator[None]:
    """Inside, each variable of a store is read once.

    Raises:
        InvalidArgumentError: such a scope is open already.
    """
    if _open.get() is not None:
        raise InvalidArgumentError("cache_variable_reads was opened inside another one. One is enough: leave the inner one out.")
    _open.set(_Reads(store))
    try:
        yield
    finally:
        _open.set(None)


def cached_read(variable: VariableHandle, store: object, tracer: Tracer | None, read: Callable[[], Value]) -> Value:
    """The value of a variable, read now unless the open scope has it."""
    reads = _open.get()
    if reads is None or reads.store is not store or (tracer is not None and _is_replaced(variable, tracer)):
        return read()
    key = tracer, variable.ref()
    if key not in reads.values:
        reads.values[key] = read()
    return reads.values[key]  # pyright: ignore[reportReturnType]


def _is_replaced(variable: VariableHandle, tracer: Tracer) -> bool:
    """Whether value_and_grad has put another value in its place, which exists inside of it only."""
    return any(variable.found_in(overlay.values, tracer.read) is not None for overlay in tracer.overlays)
