"""Where replicas meet: a marker that JAX can differentiate.

A collective (all-reduce, all-gather, ...) stands in the jaxpr of a step like the other markers, but it is linear in what it
is given, so it may stand inside a differentiated function: synchronised batch normalisation does. The derivative of a sum
over replicas is a sum over replicas.

What is exchanged together is one operation: `operands` of one replica, and `outputs` as each replica gets them.

    all_reduce      k arrays -> their k sums over the replicas
    all_gather      k arrays -> n x k arrays, those of replica 0 first
    broadcast       k arrays -> those of replica 0
    reduce_scatter  n x k arrays -> k sums: of what all replicas have for this one
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import jax.core
from jax.extend import core as jex_core
from jax.interpreters import ad, batching

from simdist.errors import FailedPreconditionError
from simdist.program.values import Aval, num_bytes

__all__ = ["COLLECTIVE", "Collective", "bind_collective", "require_outside_of_inner_programs"]


@dataclass(frozen=True)
class Collective:
    """What is exchanged, and how.

    Args:
        kind: one of the four above.
        operands: what this replica gives.
        outputs: what it gets.
        num_replicas: members.
        options: what the strategy wants: packing, algorithm; None for its default.
        label: what it is for, in traces: "gradients", "variables", ...
        averaged: whether the sum will be divided by the number of members: where some are not waited for, the others stand for them.
    """

    kind: str
    operands: tuple[Aval, ...]
    outputs: tuple[Aval, ...]
    num_replicas: int
    options: Any = None
    label: str = ""
    averaged: bool = False

    @cached_property
    def size_bytes(self) -> int:
        """What each replica gives."""
        return num_bytes(self.operands)

    def agrees_with(self, other: Collective) -> bool:
        """Whether two replicas can meet in these: the same kind, and the same shapes where they are added."""
        same = (self.kind, self.num_replicas) == (other.kind, other.num_replicas)
        if not same or len(self.operands) != len(other.operands):
            return False
        if self.kind == "all_gather":
            return self.outputs == other.outputs
        return self.operands == other.operands

    def __str__(self) -> str:
        shapes = ", ".join(f"{aval.dtype}{list(aval.shape)}" for aval in self.operands[:4])
        return f"{self.kind} of {shapes}{', ...' if len(self.operands) > 4 else ''}"


COLLECTIVE = "simdist_collective"
_collective = jex_core.Primitive(COLLECTIVE)
_collective.multiple_results = True


@_collective.def_abstract_eval
def _avals(*_: Any, collective: Collective) -> list[Any]:
    return [jax.core.ShapedArray(aval.shape, aval.dtype) for aval in collective.outputs]


def bind_collective(collective: Collective, operands: Sequence[Any]) -> list[Any]:
    """Put a collective into the trace that the operands belong to."""
    return list(_collective.bind(*operands, collective=collective))


def require_outside_of_inner_programs(jaxpr: Any) -> None:
    """Exchanges must stand in the step itself: those inside a loop, a branch or a compiled function cannot be cut out of it.

    Raises:
        FailedPreconditionError: one stands inside.
    """
    for eqn in jaxpr.eqns:
        for inner in _inner_jaxprs(eqn):
            if any(other.primitive is _collective for other in inner.eqns):
                raise FailedPreconditionError(
                    f"Replicas meet (all_reduce, all_gather, merge_call or an aggregated assignment) inside a jax {eqn.primitive.name}. "
                    "Take the collective out of it: reduce or gather what it returns, or write the loop in Python. A function under "
                    "@sd.function may be called inside a step."
                )
            require_outside_of_inner_programs(inner)


def _inner_jaxprs(eqn: Any) -> Iterator[Any]:
    for value in eqn.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            inner = getattr(item, "jaxpr", item)
            if hasattr(inner, "eqns"):
                yield inner


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, collective: Collective) -> tuple[Any, Any]:
    results = _collective.bind(*primals, collective=collective)
    if all(type(tangent) is ad.Zero for tangent in tangents):
        return results, [cast(Any, ad.Zero).from_primal_value(result) for result in results]
    given = [ad.instantiate_zeros(tangent) for tangent in tangents]
    return results, _collective.bind(*given, collective=replace(collective, label="derivative"))


def _transpose(cotangents: Sequence[Any], *operands: Any, collective: Collective) -> list[Any]:
    given = [ad.instantiate_zeros(cotangent) for cotangent in cotangents]
    if collective.kind == "all_reduce":
        return _collective.bind(*given, collective=collective)
    if collective.kind == "all_gather":
        return _collective.bind(
            *given, collective=replace(collective, kind="reduce_scatter", operands=collective.outputs, outputs=collective.operands)
        )
    raise NotImplementedError(f"A {collective.kind} between replicas cannot be differentiated; use all_reduce or all_gather.")


def _batched(operands: Sequence[Any], dims: Sequence[Any], *, collective: Collective) -> tuple[Any, Any]:
    if collective.kind != "all_reduce":
        raise NotImplementedError(f"A {collective.kind} between replicas cannot stand inside jax.vmap; use it outside.")
    size = next(operand.shape[dim] for operand, dim in zip(operands, dims, strict=True) if dim is not None)
    moved = [batching.bdim_at_front(operand, dim, size) for operand, dim in zip(operands, dims, strict=True)]
    avals = tuple(Aval((size, *aval.shape), aval.dtype) for aval in collective.operands)
    return _collective.bind(*moved, collective=replace(collective, operands=avals, outputs=avals)), [0] * len(avals)


ad.primitive_jvps[_collective] = _jvp
ad.primitive_transposes[_collective] = _transpose
batching.primitive_batchers[_collective] = _batched
