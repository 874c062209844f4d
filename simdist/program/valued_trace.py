"""Tracing with values: a jaxpr is written down while the code that is traced sees numbers.

An ordinary trace runs code on placeholders, which have no values: ``float(loss)`` in it is an error. Here each placeholder has a value
beside it, of one example. So code whose course depends on values can be traced, as it goes for this example. `simdist` does so only
where the code of an eager step cannot be traced otherwise.

Invariant: what is written down is what an ordinary trace would write down, if the code took the same course.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.core
import numpy as np
from jax.extend import core as jex_core

from simdist.program.arrays import Array, DTypeLike, HostArray

__all__ = ["GivenValues", "ValuedTrace", "placeholder_of"]

GivenValues: TypeAlias = Callable[[jex_core.Primitive, dict[str, Any]], Sequence[Array] | None]
"""The values of a primitive that has none of its own, such as a marker; None: it is an ordinary one."""

Wrapped: TypeAlias = Any
"""A function in the form in which JAX passes it to a trace."""


Placeholder: TypeAlias = Any
"""A tracer of JAX, which carries no types."""

Tracer: Any = jax.core.Tracer


class _Valued(Tracer):
    """A placeholder, and its value in the example."""

    __slots__ = ("placeholder", "value")

    def __init__(self, trace: ValuedTrace, placeholder: Placeholder, value: Array) -> None:
        super().__init__(trace, placeholder.aval)
        self.placeholder = placeholder
        self.value = value

    def to_concrete_value(self) -> Array:
        return self.value

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        return np.array(self.value, dtype, copy=copy)

    def __float__(self) -> float:
        return float(self.value)

    def __complex__(self) -> complex:
        return complex(self.value)

    def __format__(self, how: str) -> str:
        return format(self.value, how)

    def item(self, *args: int) -> Any:
        return np.asarray(self.value).item(*args)

    def tolist(self) -> Any:
        return np.asarray(self.value).tolist()

    def __repr__(self) -> str:
        return repr(self.value)


class ValuedTrace(jax.core.Trace):
    """Writes down in another trace what it computes for an example.

    Args:
        outer: an ordinary trace, which writes the jaxpr.
        given: the values of markers.
    """

    def __init__(self, outer: jax.core.Trace, given: GivenValues) -> None:
        super().__init__()
        self.outer = outer
        self.given = given

    def stage_value(self, val: Any) -> Any:
        if isinstance(val, _Valued):
            return val
        with jax.core.eval_context():
            return self._valued(self.outer.stage_value(val), jax.numpy.asarray(val))

    def process_primitive(self, primitive: jex_core.Primitive, tracers: Sequence[Any], params: dict[str, Any], /) -> Any:
        with jex_core.set_current_trace(self.outer):
            written = primitive.bind(*map(placeholder_of, tracers), **params)
        with jax.core.eval_context():
            found: Any = self.given(primitive, params)
            if found is None:
                values = [tracer.value if isinstance(tracer, _Valued) else tracer for tracer in tracers]
                found = primitive.bind(*values, **params)
        if primitive.multiple_results:
            return [self._valued(one, value) for one, value in zip(written, found, strict=True)]
        return self._valued(written, found)

    def _valued(self, placeholder: Any, value: Array) -> Any:
        return _Valued(self, placeholder, value) if isinstance(placeholder, jax.core.Tracer) else placeholder

    def process_call(self, call_primitive: jex_core.Primitive, f: Wrapped, tracers: Sequence[Any], params: dict[str, Any], /) -> Any:
        return self._inline(f, tracers)

    def process_custom_jvp_call(
        self, primitive: jex_core.Primitive, fun: Wrapped, jvp: Wrapped, tracers: Sequence[Any], /, *, symbolic_zeros: bool
    ) -> Any:
        return self._inline(fun, tracers)

    def process_custom_vjp_call(
        self, primitive: jex_core.Primitive, fun: Wrapped, fwd: Wrapped, bwd: Wrapped, tracers: Sequence[Any], /, **_: Any
    ) -> Any:
        return self._inline(fun, tracers)

    def _inline(self, function: Wrapped, tracers: Sequence[Any]) -> Any:
        with jex_core.set_current_trace(self):
            return function.call_wrapped(*tracers)


def placeholder_of(value: Any) -> Any:
    """The placeholder of a value; anything else as it is."""
    return value.placeholder if isinstance(value, _Valued) else value
