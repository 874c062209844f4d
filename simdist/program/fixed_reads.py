"""Functions that are traced once and kept, and so must not read variables: what they have read would be the same number for ever.

Such are the rules of optimizers; and what a user gives to ``jax.jit`` and calls outside of steps, as on any Keras variable. (In a step
JAX remembers nothing that the step has read: `simdist.program.captures`.)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jax.extend import core as jex_core

from simdist.errors import ConstantReadWarning
from simdist.process_state import TaskLocal
from simdist.program.operations import VariableHandle
from simdist.program.tracing import active_tracer

__all__ = ["require_may_be_read", "traced_once", "watching_reads"]

_watches: TaskLocal[tuple[Callable[[VariableHandle], None], ...]] = TaskLocal(tuple)


@contextmanager
def watching_reads(watch: Callable[[VariableHandle], None]) -> Iterator[None]:
    """Inside, a variable that is read from outside of every step is shown to `watch` first, which raises what is wrong with that."""
    with _watches.replaced((*_watches.get(), watch)):
        yield


@contextmanager
def traced_once() -> Iterator[None]:
    """Inside (or in what it decorates), functions are traced to see what they are, and no number that they read is kept."""
    with watching_reads(lambda variable: None):
        yield


def require_may_be_read(variable: VariableHandle) -> None:
    """Show a variable that is about to be read to those who watch, and warn where JAX will remember its value."""
    watches = _watches.get()
    for watch in watches:
        watch(variable)
    if not watches and active_tracer() is None and _is_in_jit():
        warnings.warn(
            f"A function that was given to jax.jit reads the variable {variable.name!r} outside of every step. JAX compiles the number of "
            "this moment into it, and later calls have that, whatever the variable is then. Make the function a step (@sd.function, "
            "strategy.run), where it reads the present number; or give it the value as an argument.",
            ConstantReadWarning,
            stacklevel=5,
        )


def _is_in_jit() -> bool:
    with jex_core.take_current_trace() as trace:
        inner: object = trace
    while inner is not None:
        frame = getattr(inner, "frame", None)  # of a trace that writes a jaxpr down
        if getattr(getattr(frame, "debug_info", None), "traced_for", None) == "jit":
            return True
        inner = getattr(inner, "parent_trace", None)
    return False
