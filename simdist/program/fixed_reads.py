"""Functions that are traced once and kept, and so must not read variables: what they have read would be the same number for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from simdist.process_state import TaskLocal
from simdist.program.operations import VariableHandle

__all__ = ["require_may_be_read", "watching_reads"]

_watches: TaskLocal[tuple[Callable[[VariableHandle], None], ...]] = TaskLocal(tuple)


@contextmanager
def watching_reads(watch: Callable[[VariableHandle], None]) -> Iterator[None]:
    """Inside, a variable that is read from outside of every step is shown to `watch` first, which raises what is wrong with that."""
    with _watches.replaced((*_watches.get(), watch)):
        yield


def require_may_be_read(variable: VariableHandle) -> None:
    """Show a variable that is about to be read to those who watch."""
    for watch in _watches.get():
        watch(variable)
