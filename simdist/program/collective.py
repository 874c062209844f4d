"""Collectives in a traced step: a marker that JAX can differentiate.

A collective (all-reduce, all-gather, ...) stands in the jaxpr of a step like the other markers, but it is linear in what it
is given, so it may stand inside a differentiated function: synchronised batch normalisation does. The derivative of a sum
over replicas is a sum over replicas.

What is sent together is one operation: `operands` of one replica, and `outputs` as each replica gets them.

    all_reduce         k arrays -> their k sums over the replicas
    all_gather         k arrays -> n x k arrays, those of replica 0 first; lengths may differ (`padded_gather`: what travels then)
    broadcast          k arrays -> those of replica 0
    reduce             k arrays -> their k sums at replica 0, and zeros at the others: the derivative of a broadcast
    reduce_scatter     n x k arrays -> k sums: of what all replicas have for this one
    sparse_all_reduce  ids and rows of a table, or all of it -> the sum of the tables (`simdist.program.sparse_sums`); a single replica's
                       says which gradients are rows, and nothing runs
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol

import jax
import jax.core
import jax.numpy as jnp
from jax.extend import core as jex_core
from jax.interpreters import ad, batching

from simdist.errors import FailedPreconditionError
from simdist.program.global_sizes import GivenSize, differing_sizes
from simdist.program.jaxprs import inner_jaxprs
from simdist.program.values import Aval, num_bytes

__all__ = [
    "COLLECTIVE",
    "Collective",
    "CollectiveOptions",
    "GradientOptions",
    "SPARSE_SUM",
    "bind_collective",
    "padded_gather",
    "require_outside_of_inner_programs",
]


class CollectiveOptions(Protocol):
    """What a strategy wants of a collective, as far as it changes how replicas wait for each other."""

    @property
    def timeout_seconds(self) -> float | None:
        """How long the first replica waits for the last; None for ever."""
        ...


class GradientOptions(Protocol):
    """What a strategy wants of the sum of the replicas' gradients, as far as every step must know.

    Attributes:
        local: whether gradients are not added at all, because each replica takes steps of its own.
        gathers_rows: whether the gradient of a table may travel as rows.
        tables_apart: whether each table of which rows are looked up has a collective of its own.
        reads_rows: whether replicas read rows of tables together, too.
        in_order: whether updates and collectives keep the order in which they were traced.
    """

    @property
    def local(self) -> bool: ...
    @property
    def gathers_rows(self) -> bool: ...
    @property
    def tables_apart(self) -> bool: ...
    @property
    def reads_rows(self) -> bool: ...
    @property
    def in_order(self) -> bool: ...
    def fallback(self) -> GradientOptions | None:
        """Other options, for replicas whose gradients of tables have led to different collectives; None: there are none."""
        ...

    def of_tables(self) -> GradientOptions:
        """The same, where gradients of tables are tables."""
        ...


@dataclass(frozen=True)
class Collective:
    """A collective of a traced step: its kind, its operands and its options.

    Args:
        kind: one of the six above.
        operands: what this replica gives.
        outputs: what it gets.
        num_replicas: members.
        options: what the strategy wants: packing, algorithm; None for its default.
        label: what it is for, in traces: "gradients", "variables", ...
        averaged: whether the sum will be divided by the number of members: where some are not waited for, the others stand for them.
        is_for_update: whether the sum only changes a variable, so that no replica needs it where the variable lies elsewhere.
        table: of a sparse all-reduce, the number of its table among the variables of the update, the same at all replicas.
        sum_rows: of a sparse all-reduce, how many rows its sum may have where the update takes ids and rows; None where it takes a table.
        row_read: of a sparse all-reduce of rows that replicas have read together, the number of that read in the step. Its table is the
            rows that they have read, and its ids are positions among them.
        given_sizes: global batch sizes that the step was given before it.
        loss_weight: by how much this replica weighs its gradients behind their derivative. What flows back from the loss of another one
            has the weight of that loss.
        number: of the collective in its step, or of the one whose derivative this is; two that are alike otherwise are equal.
    """

    kind: str
    operands: tuple[Aval, ...]
    outputs: tuple[Aval, ...]
    num_replicas: int
    options: CollectiveOptions | None = None
    label: str = ""
    averaged: bool = False
    is_for_update: bool = False
    table: int | None = None
    sum_rows: int | None = None
    row_read: int | None = None
    given_sizes: tuple[GivenSize, ...] = ()
    loss_weight: float = 1.0
    number: int | None = field(default=None, compare=False)

    @cached_property
    def size_bytes(self) -> int:
        """The bytes that each replica contributes."""
        return self.operands[0].shape[0] * ID_BYTES + self.operands[1].size_bytes if self.gives_rows else num_bytes(self.operands)

    @property
    def gives_rows(self) -> bool:
        """Whether it is a sparse all-reduce to which the replica gives ids and rows."""
        return self.kind == SPARSE_SUM and len(self.operands) == 2

    @property
    def travels_as(self) -> str:
        """The kind of its transfers."""
        if self.kind != SPARSE_SUM:
            return self.kind
        return "all_gather" if self.gives_rows else "all_reduce"

    def agrees_with(self, other: Collective) -> bool:
        """Whether two replicas can take part in one collective: the same one of their step, and the same shapes where they are added."""
        if None not in (self.number, other.number) and self.number != other.number:
            return False
        if differing_sizes(self.given_sizes, other.given_sizes, self.num_replicas):
            return False
        same = (self.kind, self.num_replicas) == (other.kind, other.num_replicas)
        if same and self.kind == SPARSE_SUM:
            return (self.outputs, self.table) == (other.outputs, other.table)
        if not same or len(self.operands) != len(other.operands):
            return False
        if self.kind == "all_gather":
            return self.outputs == other.outputs
        return self.operands == other.operands

    def __str__(self) -> str:
        shapes = ", ".join(f"{aval.dtype}{list(aval.shape)}" for aval in self.operands[:4])
        return f"{self.kind} of {shapes}{', ...' if len(self.operands) > 4 else ''}"


def padded_gather(given: Sequence[Collective]) -> Collective:
    """The all-gather that replicas carry out together: of each array all send as many bytes as the longest has.

    Args:
        given: the collective of each replica.
    """
    first = given[0]
    longest = tuple([max(avals, key=_size_bytes) for avals in zip(*[collective.operands for collective in given], strict=True)])
    return first if longest == first.operands else replace(first, operands=longest)


def _size_bytes(aval: Aval) -> int:
    return aval.size_bytes


COLLECTIVE = "simdist_collective"
SPARSE_SUM = "sparse_all_reduce"
ID_BYTES = 8
"""Of a row number in a message, as parameter servers send it."""
_collective = jex_core.Primitive(COLLECTIVE)
_collective.multiple_results = True


@_collective.def_abstract_eval
def _avals(*_: object, collective: Collective) -> list[jax.core.ShapedArray]:
    return [jax.core.ShapedArray(aval.shape, aval.dtype) for aval in collective.outputs]


def bind_collective(collective: Collective, operands: Sequence[jax.Array]) -> list[jax.Array]:
    """Put a collective into the trace that the operands belong to."""
    return list(_collective.bind(*operands, collective=collective))


def require_outside_of_inner_programs(jaxpr: jex_core.Jaxpr) -> None:
    """Collectives must stand in the step itself: those inside a loop, a branch or a compiled function cannot be cut out of it.

    Raises:
        FailedPreconditionError: one stands inside.
    """
    for eqn in jaxpr.eqns:
        for inner in inner_jaxprs(eqn):
            if any(other.primitive is _collective for other in inner.eqns):
                raise FailedPreconditionError(
                    f"A collective (all_reduce, all_gather, merge_call or an aggregated assignment) is inside a jax {eqn.primitive.name}. "
                    "Take the collective out of it: reduce or gather what it returns, or write the loop in Python. A function under "
                    "@sd.function may be called inside a step."
                )
            require_outside_of_inner_programs(inner)


TRANSPOSED = {
    "all_reduce": "all_reduce",
    "all_gather": "reduce_scatter",
    "reduce_scatter": "all_gather",
    "broadcast": "reduce",
    "reduce": "broadcast",
}
"""What a cotangent passes through."""
Tangent = jax.Array | ad.Zero
Results = list[jax.Array]


def _jvp(primals: Sequence[jax.Array], tangents: Sequence[Tangent], *, collective: Collective) -> tuple[Results, Sequence[Tangent]]:
    results = _collective.bind(*primals, collective=collective)
    if all(type(tangent) is ad.Zero for tangent in tangents):
        return results, [ad.Zero(result.aval.to_tangent_aval()) for result in results]
    kind = "all_reduce" if collective.kind == SPARSE_SUM else collective.kind
    arrays = min(len(collective.operands), len(collective.outputs))  # of whole numbers and truth values there are no derivatives
    kept = [number for number in range(arrays) if jnp.issubdtype(collective.operands[number].dtype, jnp.inexact)]
    given = [ad.instantiate_zeros(tangent) for number, tangent in enumerate(tangents) if number % arrays in kept]
    operands, outputs = ([avals[n] for n in range(len(avals)) if n % arrays in kept] for avals in (collective.operands, collective.outputs))
    derived = replace(collective, kind=kind, operands=tuple(operands), outputs=tuple(outputs), label="derivative")
    each: Iterator[jax.Array] = iter(_collective.bind(*given, collective=derived) if given else ())
    zeros = [ad.Zero(result.aval.to_tangent_aval()) for result in results]
    return results, [next(each) if number % arrays in kept else zero for number, zero in enumerate(zeros)]


def _transpose(cotangents: Sequence[Tangent], *operands: object, collective: Collective) -> Results:
    given = [ad.instantiate_zeros(cotangent) for cotangent in cotangents]
    kind, operands, outputs = TRANSPOSED[collective.kind], collective.outputs, collective.operands
    backwards, weight = replace(collective, kind=kind, operands=operands, outputs=outputs), collective.loss_weight
    if weight == 1.0:
        return _collective.bind(*given, collective=backwards)
    sums = _collective.bind(*[_weighed(cotangent, weight) for cotangent in given], collective=backwards)
    return [_weighed(total, 1.0 / weight) for total in sums] if weight else sums


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _weighed(cotangent: jax.Array, weight: float) -> jax.Array:
    # A replica without rows has no loss; what flows back to it is not used.
    return cotangent * weight if weight else jnp.zeros_like(cotangent)


@_weighed.defjvp
def _of_inner_derivative(weight: float, primals: Sequence[jax.Array], tangents: Sequence[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """A derivative that is differentiated itself, as in a gradient penalty, is not weighed behind: only the outermost one is."""
    return primals[0], tangents[0]


def _batched(operands: Sequence[jax.Array], dims: Sequence[int | None], *, collective: Collective) -> tuple[Results, list[int]]:
    if collective.kind == SPARSE_SUM:
        raise NotImplementedError("A sum of rows of a table between replicas cannot stand inside jax.vmap; use it outside.")
    size = next(operand.shape[dim] for operand, dim in zip(operands, dims, strict=True) if dim is not None)
    moved = [batching.bdim_at_front(operand, dim, size) for operand, dim in zip(operands, dims, strict=True)]
    given, gets = ([Aval((size, *aval.shape), aval.dtype) for aval in avals] for avals in (collective.operands, collective.outputs))
    results = _collective.bind(*moved, collective=replace(collective, operands=tuple(given), outputs=tuple(gets)))
    return results, [0] * len(gets)


ad.primitive_jvps[_collective] = _jvp
ad.primitive_transposes[_collective] = _transpose
batching.primitive_batchers[_collective] = _batched
