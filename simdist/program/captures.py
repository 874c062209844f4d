"""Functions that JAX remembers: what they have read of variables is part of what it remembers.

JAX traces a function that is given to ``jax.jit``, ``lax.scan``, ``cond``, ``jax.checkpoint`` and the like once for each shape, and takes
the jaxpr from its cache the next time. A value of a variable that the function has read is in that jaxpr: it would be an old one after the
variable has changed, and a placeholder of another step in the next step. So steps have a cache of their own, and begin another one where
what may have been read has changed since.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import jax
import jax.core
from jax.extend import core as jex_core

from simdist.errors import InvalidArgumentError

__all__ = ["Captures", "captures", "require_no_loop"]

LOOPS = {"scan": "scan", "fori_loop": "fori_loop", "while_body": "while_loop", "while_cond": "while_loop"}
"""What JAX says that a function is traced for, of the bodies of its loops; how the loops are called."""

_epoch = jax.make_user_context(0)  # part of the key under which JAX remembers a jaxpr; 0: outside of steps


class Captures:
    """Whether functions that JAX may remember have read something in this process.

    Attributes:
        epoch: of the cache that steps use now.
        entered: the contexts of the steps that are being traced.
    """

    def __init__(self) -> None:
        self.epoch = 1
        self._has_read = False
        self.entered: list[ExitStack] = []

    @contextmanager
    def step(self) -> Iterator[None]:
        """Let a step use a cache in which nothing is that another step has read."""
        self._begin_anew()
        with ExitStack() as entered:
            self.entered.append(entered)
            entered.enter_context(_epoch(self.epoch))
            try:
                yield
            finally:
                if self.entered and self.entered[-1] is entered:  # as in `tracing_with`
                    self.entered.pop()

    def read(self, outermost: jax.core.Trace | None) -> None:
        """Something is read; a trace within the outermost one of its step is of a function that JAX may remember.

        Args:
            outermost: the trace of the step.
        """
        self._has_read = self._has_read or _is_inside(outermost)

    def taken(self, outermost: jax.core.Trace | None) -> None:
        """Something is taken: where JAX remembers a function that takes it, the next call of that function takes what comes next.

        Args:
            outermost: as of `read`.
        """
        if _is_inside(outermost):
            self._has_read = True
            self.changed()

    def changed(self) -> None:
        """What may have been read has another value from now on."""
        if self._begin_anew() and self.entered:
            self.entered[-1].enter_context(_epoch(self.epoch))

    def _begin_anew(self) -> bool:
        has_read, self._has_read = self._has_read, False
        self.epoch += has_read
        return has_read


def _inner_traces(outermost: jax.core.Trace | None) -> Iterator[object]:
    """The traces within the outermost one of a step, the innermost first."""
    with jex_core.take_current_trace() as trace:
        inner: object = trace
    while inner is not outermost and inner is not None:
        yield inner
        inner = getattr(inner, "parent_trace", None)


def _is_inside(outermost: jax.core.Trace | None) -> bool:
    """Whether the function that runs is one that JAX may remember."""
    return any(type(inner).__name__ == "DynamicJaxprTrace" for inner in _inner_traces(outermost))


def require_no_loop(outermost: jax.core.Trace | None, what: str, instead: str) -> None:
    """Refuse what differs from turn to turn in the body of a loop of JAX, which is traced once for all its turns.

    Args:
        outermost: the trace of the step.
        what: is refused, as the beginning of a sentence that goes on with "each turn would get the same".
        instead: what to write.

    Raises:
        InvalidArgumentError: the body of a loop runs.
    """
    for inner in _inner_traces(outermost):
        traced_for = getattr(getattr(getattr(inner, "frame", None), "debug_info", None), "traced_for", None)
        if traced_for in LOOPS:
            raise InvalidArgumentError(
                f"{what} inside the body of a jax.lax.{LOOPS[traced_for]}, which is traced once: each turn would get the same. "
                f"Write the loop in Python, or {instead}."
            )


captures = Captures()
"""Of the steps of this process."""
