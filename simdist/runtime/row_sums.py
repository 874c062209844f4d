"""Sums of gradients of tables that an update takes as ids and rows, under synchronous strategies.

A replica sums its gradients of rows with those of the others (`simdist.program.sparse_sums`). Where nothing but one update of an optimizer
uses the sum, and the optimizer's rule leaves rows without a gradient alone, the update changes the rows of the sum and no others. Whether
the rule does so is decided where parameter servers ask as well: `simdist.variables.optimizer_rule`.

A single replica has nobody to sum with: its step itself adds rows with equal ids, and no collective runs. It gives rows only where its
update takes them so; else it is traced again with tables (`simdist.strategies.synchronous.step_programs`).

How many rows a sum has at most follows from the programs that are linked together. Replicas of other mains are taken to look up as many
rows as those of this one; where that is wrong, the sum is a table, and the update goes over all of it: so it has both forms.

Invariant: both forms of an update, and any mixture, give the same numbers, unless the optimizer has ``lazy_rows=True``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import jax

from simdist.program.collective import Collective
from simdist.program.kernels import kernel_of
from simdist.program.lookups import plain_spread
from simdist.program.operations import Program, Register, TracedCollective, Update, registers_taken
from simdist.program.sparse_sums import most_sum_rows
from simdist.program.values import Aval, Bundle, BundleType
from simdist.runtime.linked import Apply, RowSum
from simdist.runtime.linked_rows import RowOperands
from simdist.runtime.updating import cells_by_owner
from simdist.variables.handles import variable_of
from simdist.variables.update_rule import rule_of

__all__ = ["MostIds", "change_of", "kept_rows", "most_ids"]

MostIds = Sequence[int | None]
"""For each collective of a step, how many ids a replica gives to it at most; None where one of them gives no rows."""


def most_ids(programs: Sequence[Program]) -> MostIds:
    """How many ids the replicas of one step give to each of their collectives at most."""
    each = zip(*[[op.collective for op in program.operations if isinstance(op, TracedCollective)] for program in programs], strict=True)
    return [max([_num_ids(given) for given in same]) if all(given.gives_rows for given in same) else None for same in each]


def _num_ids(collective: Collective) -> int:
    return collective.operands[0].shape[0]


def kept_rows(program: Program, replica: int, num_ids: MostIds) -> dict[Register, Aval]:
    """The sums that an update takes as ids and rows, with the type of their rows [m, ...].

    Args:
        program: of one replica, for which groups were prepared.
        replica: its local rank.
        num_ids: of all programs of the step (`most_ids`).
    """
    collectives = [op for op in program.operations if isinstance(op, TracedCollective)]
    sums = {op.outputs[0]: _rows_of(op.collective, count) for op, count in zip(collectives, num_ids, strict=False) if count}
    kept: dict[Register, Aval] = {}
    for update in program.operations:
        if isinstance(update, Update) and not isinstance(update.rule, str) and not sums.keys().isdisjoint(update.operands):
            for cells in cells_by_owner(update, replica).values():
                alone = [(n, cell) for n, cell in cells if update.operands[n] in sums and _is_used_once(program, update, n, replica)]
                rows = [(cell.position, sums[update.operands[n]]) for n, cell in alone]
                if rows and rule_of(update.rule).changes_rows_alone(cells[0][1].group, rows):
                    kept.update((update.operands[n], sums[update.operands[n]]) for n, _ in alone)
    return kept


def _rows_of(collective: Collective, num_ids: int) -> Aval:
    (table,) = collective.outputs
    return Aval((most_sum_rows(num_ids, collective.num_replicas, table), *table.shape[1:]), table.dtype)


def _is_used_once(program: Program, update: Update, number: int, replica: int) -> bool:
    """Whether an operand of an update goes into one cell, and nowhere else."""
    uses = sum([registers_taken(op).count(update.operands[number]) for op in program.operations])
    return uses == 1 and len(variable_of(update.variables[number]).placement.changed_by(replica)) == 1


def change_of(part: Apply, slots: Sequence[Bundle]) -> tuple[Apply, RowOperands]:
    """How a group is changed in a step by the sums that there are, and with what.

    Args:
        part: the change, for tables; it has a form for rows.
        slots: of the step.
    """
    given = tuple([slots[total.slot] for total in part.sums])
    operands = RowOperands(slots[part.operands], given, (), (), (), part.size_bytes)
    types = tuple([bundle.avals for bundle in given])
    for form in part.forms:
        if types == tuple([total.given for total in form.sums]):
            return form, operands
    if types not in part.mixtures:
        part.mixtures[types] = _mixed(part, types)
    return part.mixtures[types], operands


def _mixed(part: Apply, types: tuple[BundleType, ...]) -> Apply:
    """The change where some of the sums are ids and rows, and others are tables: it makes tables of all of them."""
    before, tables = len(part.kernel.in_avals) - len(part.sums), [total.given[0] for total in part.sums]

    def run(*arrays: jax.Array) -> Sequence[jax.Array]:
        each = iter(arrays[before:])
        return part.kernel.apart(*arrays[:before], *[_table(each, avals, table) for avals, table in zip(types, tables, strict=True)])

    avals = [*part.kernel.in_avals[:before], *(aval for given in types for aval in given)]
    sums = tuple([RowSum(total.slot, given) for total, given in zip(part.sums, types, strict=True)])
    return replace(part, kernel=kernel_of(part.kernel.name, run, avals), sums=sums, of_rows=None)


def _table(arrays: Iterator[jax.Array], avals: BundleType, table: Aval) -> jax.Array:
    """A sum as a table."""
    if avals == (table,):
        return next(arrays)
    ids, rows = next(arrays), next(arrays)
    return plain_spread(rows, ids, table.shape[0])
