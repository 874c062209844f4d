"""Several updates of one group as one: what a round makes of the updates of its closures.

Gradients are averaged, increments added up, and of assignments the last one counts. Gradients of rows are averaged as the dense gradients
would be that they stand for: the average has each row once that one of them has, and divides its sum by the number of updates. Where
another update has a dense gradient of the same table, the average is dense.

Invariants: sums are made in the order of the updates, so they have the bits of sums of dense gradients. Those of averages of half precision
are made in float32, for such a sum may be too large though the average is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from simdist.caches import bounded
from simdist.program.arrays import Array, Arrays, DTypeLike, HostArray
from simdist.program.half_precision import widened
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.row_kernels import local_rows
from simdist.program.values import Aval, Bundle, BundleType
from simdist.runtime.linked import Apply, OfRule, RowOperand
from simdist.runtime.linked_rows import RowOperands, inputs_of
from simdist.variables.update_rule import Combination

__all__ = ["CombinedUpdate", "combined", "combining", "mean_of"]


def combined(updates: Sequence[Apply]) -> CombinedUpdate:
    """One change in the place of several of the same group, which are combined in the same way.

    Args:
        updates: in their order, at least two.
    """
    first = updates[0]
    if all(update.kernel is first.kernel and not update.rows for update in updates):
        return CombinedUpdate(updates, first, combining(first.combination, len(updates), first.given))
    assert first.of_rule is not None
    return AveragedRows(updates, first.of_rule)


class CombinedUpdate:
    """One change in the place of several.

    Args:
        updates: in their order.
        update: the change.
        kernel: makes its operands of those of all updates.
    """

    def __init__(self, updates: Sequence[Apply], update: Apply, kernel: Kernel) -> None:
        self.updates = tuple(updates)
        self.update = update
        self.kernel = kernel

    @cached_property
    def reads(self) -> list[BundleType]:
        """The types of the bundles that the kernel takes."""
        return [avals for update in self.updates for avals in update.reads[1:]]

    @cached_property
    def writes(self) -> list[BundleType]:
        """The types of those that it makes."""
        return list(self.update.reads[1:])

    def joint_ids(self, given: Sequence[Bundle | RowOperands]) -> tuple[HostArray, ...]:
        """The rows that the change is made with, of each of its gradients of rows."""
        return ()

    def inputs(self, given: Sequence[Bundle | RowOperands], joint: Sequence[HostArray]) -> tuple[list[Bundle], Arrays]:
        """What the kernel takes: bundles, and small arrays of the host.

        Args:
            given: the operands of each update.
            joint: the rows of the change.
        """
        return [bundle for operands in given for bundle in inputs_of(operands)[0]], ()

    def operands(self, results: Sequence[Bundle], joint: tuple[HostArray, ...]) -> Bundle | RowOperands:
        """The operands of the change, of what the kernel has made."""
        return results[0]


class AveragedRows(CombinedUpdate):
    """The average of updates with gradients of rows, and perhaps of dense ones.

    Args:
        updates: in their order.
        rule: of all of them.
    """

    def __init__(self, updates: Sequence[Apply], rule: OfRule) -> None:
        cells = rule.group.cells
        group = cells[0].group  # it may have been joined with others since
        self._forms = [_form_of(update) for update in updates]
        self._rows = {position: self._joint(position) for position in self._forms[0] if all(form[position][1] for form in self._forms)}
        dense = [position for position in self._forms[0] if position not in self._rows]
        avals = tuple([Aval(cells[position].aval.shape, self._forms[0][position][0].dtype) for position in dense])
        self._dense = dict(zip(dense, avals, strict=True))
        changed = [cells[position].position for position in dense]
        rows = [(cells[position].position, operand.rows) for position, operand in self._rows.items()]
        kernel = rule.rule.row_kernel(group, changed, avals, rows) if rows else rule.rule.kernel(group, changed, avals)
        update = replace(
            updates[0],
            group=group.number,
            kernel=kernel,
            state=group.avals,
            given=avals,
            rows=tuple(self._rows.values()),
            cells=(*changed, *(position for position, _ in rows)),
        )
        super().__init__(updates, update, self._averaging(updates))

    def _joint(self, position: int) -> RowOperand:
        """The average of gradients of rows of one table: as many rows as there may be."""
        operands = [form[position][1] for form in self._forms]
        first = operands[0]
        assert first is not None
        count = min(sum([operand.rows.shape[0] for operand in operands if operand is not None]), first.stop - first.first)
        return RowOperand(first.number, first.slot, Aval((count, *first.rows.shape[1:]), first.rows.dtype), first.first, first.stop)

    def _averaging(self, updates: Sequence[Apply]) -> Kernel:
        avals = [aval for update in updates for bundle in update.reads[1:] for aval in bundle]
        ids = [Aval((operand.rows.shape[0],), "int32") for update in updates for operand in update.rows]
        size = len(avals)

        def run(*arrays: jax.Array) -> list[jax.Array]:
            given, hosts = iter(arrays[:size]), iter(arrays[size:])
            taken = [_taken(form, given, hosts) for form in self._forms]
            totals = [self._total([own[position] for own in taken], position) for position in (*self._dense, *self._rows)]
            dtypes = [*(aval.dtype for aval in self._dense.values()), *(operand.rows.dtype for operand in self._rows.values())]
            return [mean_of(total, len(updates), dtype) for total, dtype in zip(totals, dtypes, strict=True)]

        return kernel_of(f"mean of rows of {len(updates)}", run, [*avals, *ids])

    def _total(self, parts: Sequence[tuple[jax.Array, jax.Array | None]], position: int) -> jax.Array:
        """The sum of the gradients of one cell; of rows where all of them are rows. Of half precision it is one of float32."""
        joint = self._rows.get(position)
        parts = [(widened(array), at) for array, at in parts]
        if joint is not None:
            total = jnp.zeros(joint.rows.shape, parts[0][0].dtype)
            for rows, at in parts:
                assert at is not None
                total = total.at[at].add(rows, mode="drop")
            return total
        tables = [self._table(array, ids, form[position][1], position) for (array, ids), form in zip(parts, self._forms, strict=True)]
        total = tables[0]
        for table in tables[1:]:
            total = total + table
        return total

    def _table(self, array: jax.Array, ids: jax.Array | None, operand: RowOperand | None, position: int) -> jax.Array:
        """A gradient as a dense one."""
        if ids is None or operand is None:
            return array
        aval = self._dense[position]
        return jnp.zeros(aval.shape, array.dtype).at[local_rows(ids, operand.first, operand.stop)].add(array, mode="drop")

    def joint_ids(self, given: Sequence[Bundle | RowOperands]) -> tuple[HostArray, ...]:
        """The rows that one of the updates has, each once, ascending; filled up with the row after the last of the shard."""
        found: list[HostArray] = []
        for position, joint in self._rows.items():
            each = [_ids_of(operands, update, position) for operands, update in zip(given, self.updates, strict=True)]
            ids = np.unique(np.concatenate(each))
            padded = np.full(joint.rows.shape[0], joint.stop, np.int32)
            inside = ids[(ids >= joint.first) & (ids < joint.stop)]
            padded[: len(inside)] = inside
            found.append(padded)
        return tuple(found)

    def inputs(self, given: Sequence[Bundle | RowOperands], joint: Sequence[HostArray]) -> tuple[list[Bundle], Arrays]:
        bundles, _ = super().inputs(given, joint)
        rows_of = dict(zip(self._rows, joint, strict=True))
        hosts: list[Array] = []
        for operands, update in zip(given, self.updates, strict=True):
            if isinstance(operands, RowOperands):
                positions = update.cells[len(update.given) :]
                hosts += [self._among(ids, position, rows_of) for position, ids in zip(positions, operands.ids, strict=True)]
        return bundles, tuple(hosts)

    def _among(self, ids: HostArray, position: int, rows_of: Mapping[int, HostArray]) -> HostArray:
        """Where rows are among those of the average, or after its last; where that is dense, the rows themselves."""
        if position not in self._rows:
            return ids
        joint, operand = rows_of[position], self._rows[position]
        of_shard = joint[: joint.searchsorted(operand.stop)]
        return np.where(np.isin(ids, of_shard), of_shard.searchsorted(ids), len(joint)).astype(np.int32)

    def operands(self, results: Sequence[Bundle], joint: tuple[HostArray, ...]) -> Bundle | RowOperands:
        if not self._rows:
            return results[0]
        dense, rows = (results[0], results[1:]) if self._dense else (Bundle.of(()), results)
        return RowOperands(dense, tuple(rows), (), joint, (), 0)


Form = dict[int, tuple[Aval, "RowOperand | None"]]
"""Of each cell that an update changes what its gradient looks like, by position; and where it is one of rows, which ones."""


def _form_of(update: Apply) -> Form:
    size = len(update.given)
    form: Form = {position: (aval, None) for position, aval in zip(update.cells[:size], update.given, strict=True)}
    form.update({position: (operand.rows, operand) for position, operand in zip(update.cells[size:], update.rows, strict=True)})
    return form


def _taken(form: Form, given: Iterator[jax.Array], hosts: Iterator[jax.Array]) -> dict[int, tuple[jax.Array, jax.Array | None]]:
    """The arrays of one update, by position: its gradient, and of rows what says where they are."""
    return {position: (next(given), None if operand is None else next(hosts)) for position, (_, operand) in form.items()}


def _ids_of(operands: Bundle | RowOperands, update: Apply, position: int) -> HostArray:
    assert isinstance(operands, RowOperands)
    return operands.ids[update.cells.index(position) - len(update.given)]


def mean_of(total: jax.Array, count: int, dtype: DTypeLike) -> jax.Array:
    """A mean, in the dtype of what was added up."""
    return (total / count).astype(dtype)


@bounded("kernels of rounds", size=256)
def combining(combination: Combination, count: int, given: BundleType) -> Kernel:
    """The kernel that makes one update of several dense ones, in their order.

    Args:
        combination: "mean", "sum" or "last"; others are not combined.
        count: how many updates.
        given: the type of each.
    """
    width = len(given)

    def run(*arrays: jax.Array) -> list[jax.Array]:
        parts = [arrays[first : first + width] for first in range(0, len(arrays), width)]
        if combination == "last":
            return list(parts[-1])
        if combination == "mean":
            parts = [[widened(array) for array in part] for part in parts]
        totals = list(parts[0])
        for part in parts[1:]:
            totals = [total + array for total, array in zip(totals, part, strict=True)]
        return totals if combination == "sum" else [mean_of(total, count, aval.dtype) for total, aval in zip(totals, given, strict=True)]

    return kernel_of(f"{combination} of {count}", run, [*given] * count)
