"""Updates by gradients of rows: of these rows alone where the rule leaves all others as they are, else of whole tables.

SGD without momentum and Adagrad change nothing where the gradient is zero: they change the rows that have one. Slots that decay (momentum,
RMSprop, Adam) change in every row with every update; a table that such a rule changes is changed as a whole, by the gradient with zeros
elsewhere, so that the numbers are those of Keras and of Optax on JAX. Whether a rule is of the first kind is read from its jaxpr.
With ``lazy_rows=True`` every element-wise rule changes only rows that have a gradient, which gives other numbers; except one that adds up
the gradients of several steps, as the sum that it applies in a step has rows for which that step has no gradient.

Taught in lesson 06.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from simdist.errors import DenseUpdateWarning
from simdist.program.fixed_reads import traced_once
from simdist.program.jaxprs import aval_in, needed_for
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.known_results import UnchangedInput, known_results
from simdist.program.row_kernels import Port, local_rows, row_kernel_of
from simdist.program.traces import jaxpr_of
from simdist.program.values import Aval
from simdist.variables.slot_optimizer import SlotOptimizer
from simdist.variables.state import Cell, Group

__all__ = [
    "LARGE_TABLE_BYTES",
    "RowUpdate",
    "changed_state",
    "counting_kernel",
    "has_state_of_unknown_tables",
    "leaves_rows_alone",
    "warn_of_changed_sums",
    "warn_of_dense_updates",
    "warn_of_rule_of_tables",
    "warn_of_sums_of_steps",
    "warn_of_whole_tables",
]

# From so many bytes of a table on its server, an update of all of it is worth a warning.
LARGE_TABLE_BYTES = 16 << 20
# Smaller arrays are copied where an update is counted.
LARGE_BYTES = 2 << 20


def changed_state(
    slot_optimizer: SlotOptimizer, trained: Sequence[int], arrays: Sequence[jax.Array], given: Mapping[int, jax.Array]
) -> list[jax.Array]:
    """The arrays of a group after an update.

    Args:
        slot_optimizer: of the group.
        trained: positions of the cells that it changes, in its order.
        arrays: of the group.
        given: gradients, by position.
    """
    changed, kept = list(arrays), [cell.position for cell in slot_optimizer.cells]
    return _changed(slot_optimizer, trained, kept, changed, given)


def counting_kernel(name: str, group: Group, slot_optimizer: SlotOptimizer, trained: Sequence[int]) -> Kernel:
    """The kernel that counts an update which has changed variables of other groups alone: the count of a rule is one for all of them.

    Of large arrays it takes a row that there is not, so that they need not be copied.

    Args:
        name: of the kernel.
        group: that holds the cells and the state.
        slot_optimizer, trained: as of `changed_state`.
    """
    avals = [*group.avals, Aval((1,), "int32")]
    counted = {cell.position for role, cell in zip(slot_optimizer.roles, slot_optimizer.cells, strict=True) if role.kind != "slot"}
    large = [number for number, aval in enumerate(group.avals) if aval.size_bytes >= LARGE_BYTES and aval.shape and number not in counted]

    def of_numbers(*arrays: jax.Array) -> list[jax.Array]:
        zeros = {position: jnp.zeros_like(arrays[position]) for position in trained}
        after = changed_state(slot_optimizer, trained, arrays[: len(group.avals)], zeros)
        return [new if position in counted else old for position, (old, new) in enumerate(zip(arrays, after, strict=False))]

    def of_no_row(*rows: jax.Array) -> list[jax.Array]:
        whole = [jnp.zeros(avals[n].shape, avals[n].dtype) if n in large else array for n, array in enumerate(rows)]
        return [rows[n] if n in large else array for n, array in enumerate(of_numbers(*whole))]

    kernel = kernel_of(name, of_numbers, avals)
    jaxpr = kernel.closed.jaxpr
    _, needed = needed_for(jaxpr, [jaxpr.outvars[number] for number in sorted(counted)])
    if not large or any(jaxpr.invars[number] in needed for number in large):
        return kernel
    return row_kernel_of(name, of_no_row, avals, [Port(n, len(group.avals), 0, avals[n].shape[0], n) for n in large])


def _changed(
    slot_optimizer: SlotOptimizer, trained: Sequence[int], kept: Sequence[int], changed: list[jax.Array], given: Mapping[int, jax.Array]
) -> list[jax.Array]:
    values, state = [changed[index] for index in trained], [changed[index] for index in kept]
    for indices, new in zip((trained, kept), slot_optimizer.apply(values, state, [given.get(index) for index in trained]), strict=True):
        for index, array in zip(indices, new, strict=True):
            changed[index] = array
    return changed


class RowUpdate:
    """An update of one group, some of whose operands are gradients of rows.

    Args:
        optimizer: the user's.
        group: that is changed.
        cells: of the variables that the optimizer changes, in its order.
        slot_optimizer: of these.
        positions, operand_avals, rows: as of `UpdateRule.row_kernel`.
        pairs: whether the ids of each gradient stand before its rows; default: after all rows.
    """

    def __init__(
        self,
        optimizer: object,
        group: Group,
        cells: Sequence[Cell],
        slot_optimizer: SlotOptimizer,
        positions: Sequence[int],
        operand_avals: Sequence[Aval],
        rows: Sequence[tuple[int, Aval]],
        pairs: bool = False,
    ) -> None:
        self.name = f"apply {type(optimizer).__name__}"
        self.group = group
        self.trained = [cell.position for cell in cells]
        self.slot_optimizer = slot_optimizer
        self.positions = positions
        self.rows = rows
        self.pairs = pairs
        self.first_rows = len(group.cells) + len(operand_avals)
        values, ids = [aval for _, aval in rows], [Aval((aval.shape[0],), "int32") for _, aval in rows]
        given = [aval for pair in zip(ids, values, strict=True) for aval in pair] if pairs else [*values, *ids]
        self.avals = [*(cell.aval for cell in group.cells), *operand_avals, *given]

    def kernel(self, rows_only: SlotOptimizer | None) -> Kernel:
        """The kernel of the update.

        Args:
            rows_only: the slot optimizer of rows in the place of tables; None where all rows of the tables change.
        """
        return self._of_tables() if rows_only is None else self._of_rows(rows_only)

    def _of_tables(self) -> Kernel:
        size = len(self.group.cells)

        def run(*arrays: jax.Array) -> list[jax.Array]:
            given = self._given(arrays)
            for number, (position, _) in enumerate(self.rows):
                ids = local_rows(arrays[self._ids(number)], *self._range(position))
                given[position] = jnp.zeros_like(arrays[position]).at[ids].add(given[position], mode="drop")
            return changed_state(self.slot_optimizer, self.trained, arrays[:size], given)

        return kernel_of(self.name, run, self.avals)

    def _of_rows(self, rows_only: SlotOptimizer) -> Kernel:
        size, kept = len(self.group.cells), [cell.position for cell in self.slot_optimizer.cells]

        def run(*arrays: jax.Array) -> list[jax.Array]:
            return _changed(rows_only, self.trained, kept, list(arrays[:size]), self._given(arrays))

        return row_kernel_of(self.name, run, self.avals, self._ports(rows_only))

    def _ports(self, rows_only: SlotOptimizer) -> list[Port]:
        """The tables: cells of which rows change, and slots of these with as many rows."""
        ports: list[Port] = []
        for number, (position, aval) in enumerate(self.rows):
            tables, owner, table = [position], self.trained.index(position), self.group.cells[position].aval
            for cell, of_rows, role in zip(self.slot_optimizer.cells, rows_only.cells, self.slot_optimizer.roles, strict=True):
                # As many rows as the table has: then what belongs to its rows is not known by a shape that differs.
                follows = cell.aval.shape == table.shape if aval.shape == table.shape else cell.aval != of_rows.aval
                if follows and (role.owner == owner if role.kind == "slot" else len(self.rows) == 1):
                    tables.append(cell.position)
            ports += [Port(table, self._ids(number), *self._range(position), table) for table in tables]
        return ports

    def _given(self, arrays: Sequence[jax.Array]) -> dict[int, jax.Array]:
        given = dict(zip(self.positions, arrays[len(self.group.cells) : self.first_rows], strict=True))
        given.update({position: arrays[self._values(number)] for number, (position, _) in enumerate(self.rows)})
        return given

    def _values(self, number: int) -> int:
        return self.first_rows + (2 * number + 1 if self.pairs else number)

    def _ids(self, number: int) -> int:
        return self.first_rows + (2 * number if self.pairs else len(self.rows) + number)

    def _range(self, position: int) -> tuple[int, int]:
        cell = self.group.cells[position]
        return cell.rows or (0, cell.aval.shape[0])


def has_state_of_unknown_tables(slot_optimizer: SlotOptimizer, tables: Sequence[Cell]) -> bool:
    """Whether an array of the state could be of the rows of any of these tables: of which one, cannot be known."""
    rows = {table.aval.shape[0] for table in tables}
    shared = [cell for role, cell in zip(slot_optimizer.roles, slot_optimizer.cells, strict=True) if role.kind != "slot"]
    return any(cell.aval.shape[:1] and cell.aval.shape[0] in rows for cell in shared)


@traced_once()
def leaves_rows_alone(slot_optimizer: SlotOptimizer, avals: Sequence[Aval], tables: Sequence[int]) -> bool:
    """Whether a gradient of zeros changes no number of a table, nor of its slots, whatever the rest of the rule's state is.

    It is read from the jaxpr of the rule, and not tried out: a rule may change rows at some steps only. One that adds up gradients of
    several steps does so at the last of them, one that decays weights where its rate is not 0. Where it cannot be said, the answer is no.

    Args:
        slot_optimizer: for cells of these shapes.
        avals: of the cells.
        tables: which of them are tables.
    """
    shapes = {avals[number].shape for number in tables}
    specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    state = [jax.ShapeDtypeStruct(cell.aval.shape, cell.aval.dtype) for cell in slot_optimizer.cells]
    with jax.core.eval_context():
        closed = jaxpr_of(slot_optimizer.apply, specs, state, specs)
        gradients = [np.zeros(aval.shape, aval.dtype) if number in tables else None for number, aval in enumerate(avals)]
        results = known_results(closed, [*[None] * (len(avals) + len(state)), *gradients])
    kept = [*tables, *[len(avals) + number for number, spec in enumerate(state) if spec.shape in shapes]]
    return all(results[number] == UnchangedInput(number, aval_in(closed.jaxpr.invars[number]).dtype) for number in kept)


def warn_of_whole_tables(names: Sequence[str]) -> bool:
    """Say for which tables lazy_rows=True has no effect, and whether there are any."""
    if names:
        warnings.warn(
            f"lazy_rows=True has no effect on {', '.join(names)} here: gradients are tables under CentralStorageStrategy, with sync_every, "
            "with compression, and where a step of one replica changes them or uses them elsewhere, too. Each update changes all rows, as "
            "without lazy_rows. Leave it out, or give the optimizer the gradients as they are, under another strategy.",
            DenseUpdateWarning,
            stacklevel=4,
        )
    return bool(names)


def warn_of_changed_sums(names: Sequence[str]) -> bool:
    """Say for which tables lazy_rows=True has no effect, as sums of gradients of rows become those of tables, and whether there are any."""
    if names:
        warnings.warn(
            f"lazy_rows=True has no effect on {', '.join(names)} here: the optimizer clips the sum of the replicas' gradients, or takes a "
            "scale off it, which makes it that of the whole table, and all rows change. Leave lazy_rows out, or clipping and scaling.",
            DenseUpdateWarning,
            stacklevel=4,
        )
    return bool(names)


def warn_of_rule_of_tables(name: str, cells: Sequence[Cell]) -> None:
    """Say that lazy_rows=True has no effect with a rule that brings numbers of several rows together."""
    warnings.warn(
        f"lazy_rows=True has no effect on {', '.join([cell.name for cell in cells])}: {name} changes rows by what it knows of others (it "
        "clips by a norm, for example), so an update changes all rows. Leave lazy_rows out, or take a rule that changes each number alone.",
        DenseUpdateWarning,
        stacklevel=2,
    )


def warn_of_sums_of_steps(cells: Sequence[Cell]) -> None:
    """Say that lazy_rows=True has no effect with a rule that adds up the gradients of several steps."""
    warnings.warn(
        f"lazy_rows=True has no effect on {', '.join([cell.name for cell in cells])}: the optimizer adds up the gradients of several "
        "steps, and rows whose gradients are from the steps before must change, too, when it applies the sum. Leave lazy_rows out.",
        DenseUpdateWarning,
        stacklevel=2,
    )


def warn_of_dense_updates(name: str, cells: Sequence[Cell]) -> None:
    """Say which optimizer changes all rows of a large table."""
    for cell in cells:
        if cell.aval.size_bytes >= LARGE_TABLE_BYTES:
            warnings.warn(
                f"{name} also changes rows of {cell.name!r} without a gradient (its slots decay, or it decays weights), so an update goes "
                f"over all {cell.aval.shape[0]:,} rows on {cell.task}, as on one machine. Use SGD without momentum or Adagrad; or let it "
                "change only rows that have a gradient, which gives other numbers: sd.Optimizer(..., lazy_rows=True).",
                DenseUpdateWarning,
                stacklevel=2,
            )
