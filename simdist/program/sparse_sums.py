"""Sums of gradients of tables over the replicas: a sparse all-reduce, in which rows travel in place of tables.

A replica that looks up k rows of a table [n, ...] has a gradient with at most k rows that are not zero. TensorFlow calls it IndexedSlices.
Its sum over r replicas needs no all-reduce of n rows: an *all-gather* brings everybody the ids and the rows of all, and each replica adds
them into a table of zeros. The path of such a gradient:

1. `embedding_lookup` and `keras.layers.Embedding` bind a lookup that the tracer counts (`simdist.variables.embedding`).
2. `Optimizer.apply_gradients` gives the gradient of such a table a collective of its own, "sparse_all_reduce". Tables of which rows would
   be more bytes stay in the packs of the dense gradients (`simdist.variables.gradient_sum`).
3. `with_rows_in_sums` finds out whether the gradient is what lookups alone have made (spreads, and sums of them). Then its ids [k] and rows
   [k, ...] are the operands of the collective, in place of the dense gradient. What else uses the gradient gets it dense, as before.
4. When all replicas have come, `settled` decides what travels: rows, if all have rows and the all-gather sends fewer bytes than any
   all-reduce of the table would; else the dense gradients, by the strategy's all-reduce. `rows_travel` makes the choice, in 2 and here.
5. `simdist.runtime.combining` computes the sum, once for all replicas: each row once, with its id, where the update takes it so
   (`simdist.runtime.row_sums`: nothing else uses the sum, and the rule leaves rows without a gradient alone); else a dense table.

A single replica gives ids and rows to its update in the same way, each row once: it adds them up in 3, and 4 and 5 are left out. Where the
update does not take them so, the step is traced again with a dense gradient.

Bytes: an id has eight, as in the messages of parameter servers, and k is the number of ids of the replica's part of the batch. Rows with
equal ids are not added before they travel: how many ids differ is not known when the step is traced. Replicas with fewer ids than others
send as many as those, as an all-gather of equal parts does.

Invariants: a row of the sum is the sum of its rows in the order of the replicas, and within a replica in the order of the ids, beginning
with zero: the same bits in each run and in every plan of numerics. Of several lookups of a table in one step, the last comes first, as in
the backward pass. Replicas may have different numbers of ids, or a dense gradient.

Source: Sergeev and Del Balso, Horovod: fast and easy distributed deep learning in TensorFlow, 2018 (sparse tensors by all-gather).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax.extend import core as jex_core
from jax.extend.core import JaxprEqn, Literal, Var

from simdist.program.collective import COLLECTIVE, SPARSE_SUM, Collective, bind_collective
from simdist.program.jaxprs import Atom, aval_in, called, variables_in
from simdist.program.lookups import SPREAD
from simdist.program.traces import jaxpr_of
from simdist.program.values import Aval, aval_of

__all__ = ["most_sum_rows", "rows_travel", "settled", "summed_rows", "with_rows_in_sums"]


def rows_travel(num_ids: int, num_replicas: int, table: Aval) -> bool:
    """Whether rows are fewer bytes than the table.

    An all-gather sends (r - 1) / r of what all replicas have together. No all-reduce sends less than 2 (r - 1) / r of the table.

    Args:
        num_ids: of each replica.
        num_replicas: r.
        table: shape and dtype of the dense gradient.

    Example:
        >>> rows_travel(4, 2, Aval((100, 8), "float32")), rows_travel(80, 2, Aval((100, 8), "float32"))
        (True, False)
    """
    of_rows = _of_rows(num_ids, table)
    return num_replicas * of_rows.size_bytes < 2 * table.size_bytes


def settled(given: Sequence[Collective]) -> Collective:
    """The sparse all-reduce that replicas carry out together: with rows for operands, as many as the longest has, or with a dense one.

    Args:
        given: the collective of each replica.
    """
    first, (table,) = given[0], given[0].outputs
    if all(collective.gives_rows for collective in given):
        num_ids = max(collective.operands[0].shape[0] for collective in given)
        if rows_travel(num_ids, len(given), table):
            sizes, needed = {collective.sum_rows for collective in given}, most_sum_rows(num_ids, len(given), table)
            # Mains do not know how many ids the others have: where they differ, all of them take a table.
            fits = len(sizes) == 1 and first.sum_rows is not None and needed <= first.sum_rows
            return replace(first, operands=_of_rows(num_ids, table).operands, sum_rows=first.sum_rows if fits else None)
    return replace(first, operands=first.outputs, sum_rows=None)


def most_sum_rows(num_ids: int, num_replicas: int, table: Aval) -> int:
    """How many different rows a sum over the replicas has at most.

    Args:
        num_ids: of the replica that has most.
        num_replicas: r.
        table: shape and dtype of the dense gradient.
    """
    return min(num_ids * num_replicas, table.shape[0])


def summed_rows(ids: jax.Array, rows: jax.Array, num_rows: int, size: int) -> tuple[jax.Array, jax.Array]:
    """The sum of gradients of rows of one table: each row once.

    Args:
        ids: of all replicas, one after the other [k].
        rows: theirs [k, ...].
        num_rows: of the table, n.
        size: m, at least the number of different rows; k and m are above 0.

    Returns:
        The ids [m], ascending, filled up with n; and for each the sum of its rows [m, ...], in the order of `ids`.
    """
    # As jax.numpy.take: ids below 0 count from the end, and what is no row then has no gradient.
    ids = jnp.where(ids < 0, ids + num_rows, ids)
    ids = jnp.where((ids < 0) | (ids >= num_rows), num_rows, ids)
    order = jnp.argsort(ids)
    ascending = ids[order]
    begins = jnp.concatenate([jnp.zeros(1, bool), ascending[1:] != ascending[:-1]])
    places = jnp.cumsum(begins, dtype=jnp.int32)
    found = jnp.full(size, num_rows, jnp.int32).at[places].set(ascending, mode="drop")
    place_of = jnp.zeros_like(places).at[order].set(places, mode="promise_in_bounds", unique_indices=True)
    return found, jnp.zeros((size, *rows.shape[1:]), rows.dtype).at[place_of].add(rows, mode="drop")


def _of_rows(num_ids: int, table: Aval) -> Collective:
    operands = (Aval((num_ids,), "int32"), Aval((num_ids, *table.shape[1:]), table.dtype))
    return Collective(SPARSE_SUM, operands, (table,), 1)


# -- which gradients are rows ----------------------------------------------------------------------------------------------


def with_rows_in_sums(closed: jex_core.ClosedJaxpr) -> jex_core.ClosedJaxpr:
    """A traced step whose sparse all-reduces are given ids and rows, where lookups alone have made the gradient."""
    if not any(_is_sparse_sum(eqn) for eqn in closed.jaxpr.eqns):
        return closed
    rewriting = _Rewriting(closed)
    return jaxpr_of(rewriting.run)


def _is_sparse_sum(eqn: JaxprEqn) -> bool:
    """Whether an equation is a sparse all-reduce that may be given rows yet."""
    collective = eqn.params["collective"] if eqn.primitive.name == COLLECTIVE else None
    return collective is not None and collective.kind == SPARSE_SUM and not collective.gives_rows


Part = tuple[Atom, Atom]
"""The rows that one lookup gives back, and its ids."""


class _Rewriting:
    """Traces a step once more, equation by equation."""

    def __init__(self, closed: jex_core.ClosedJaxpr) -> None:
        self.jaxpr = closed.jaxpr
        self.values: dict[Var, jax.Array] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        self.producer = {var: eqn for eqn in closed.jaxpr.eqns for var in eqn.outvars}

    def run(self) -> list[jax.Array]:
        """The new step."""
        for eqn in self.jaxpr.eqns:
            parts = self._parts(eqn.invars[0]) if _is_sparse_sum(eqn) else None
            if parts is None:
                given = list(dict.fromkeys(variables_in(eqn.invars)))
                results = called(self.jaxpr, eqn, given, [self.values[var] for var in given])
            else:
                results = self._sum_of_rows(eqn.params["collective"], parts)
            self.values.update(zip(eqn.outvars, results, strict=True))
        return [self._value(atom) for atom in self.jaxpr.outvars]

    def _parts(self, gradient: Atom) -> list[Part] | None:
        """The lookups that have made a gradient, in the order in which it adds them; none if it is zero, None if it is something else."""
        eqn = None if isinstance(gradient, Literal) else self.producer.get(gradient)
        if eqn is None:
            return None
        if eqn.primitive.name == SPREAD:
            # Padding is no row, and has no id to travel with.
            return None if eqn.params["padded"] else [(eqn.invars[0], eqn.invars[1])]
        if eqn.primitive.name == "broadcast_in_dim" and isinstance(eqn.invars[0], Literal) and eqn.invars[0].val == 0:
            return []  # of a replica without rows in its batch
        if eqn.primitive.name != "add_any":
            return None
        first, second = map(self._parts, eqn.invars)
        return None if first is None or second is None else first + second

    def _sum_of_rows(self, collective: Collective, parts: Sequence[Part]) -> list[jax.Array]:
        (table,) = collective.outputs
        # Copied, so that the kernel of the rows makes the ids, too: what it makes can travel while it still runs.
        ids = [jnp.array(self._value(of), jnp.int32, copy=True).reshape(-1) for _, of in parts] or [jnp.zeros(0, jnp.int32)]
        rows = [self._value(rows).reshape(-1, *table.shape[1:]) for rows, _ in parts] or [jnp.zeros((0, *table.shape[1:]), table.dtype)]
        all_ids, all_rows = jnp.concatenate(ids), jnp.concatenate(rows)
        if collective.num_replicas == 1 and all_ids.size:
            all_ids, all_rows = summed_rows(all_ids, all_rows, table.shape[0], most_sum_rows(all_ids.size, 1, table))
        operands = [all_ids, all_rows]
        return bind_collective(replace(collective, operands=tuple(map(aval_of, operands))), operands)

    def _value(self, atom: Atom) -> jax.Array:
        return jnp.asarray(atom.val, aval_in(atom).dtype) if isinstance(atom, Literal) else self.values[atom]
