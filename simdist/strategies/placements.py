"""The shard map of a strategy: a record for every piece of every variable, of every other cell, and of every copy of a lookup table.

Invariant: two variables of one name differ in their `namesake`, in the order in which they were made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from simdist.lookup.worker_copies import TableCopies
from simdist.variables.placement_record import PlacementRecord
from simdist.variables.state import Cell
from simdist.variables.variable import Variable

__all__ = ["placement_records"]


def placement_records(variables: Sequence[Variable], cells: Iterable[Cell], tables: Iterable[TableCopies]) -> list[PlacementRecord]:
    """First the records of variables, then those of other cells, then those of lookup tables.

    Args:
        variables: of the strategy.
        cells: all of its cells, those of the variables too.
        tables: its lookup tables.
    """
    seen: Counter[tuple[object, ...]] = Counter()
    records: list[PlacementRecord] = []
    for variable in variables:
        records += _as_namesake(variable.placements(), seen, (variable.name, variable.placement.cells[0].kind))
    held = {id(cell) for variable in variables for cell in variable.placement.cells}
    for cell in cells:
        if id(cell) not in held:  # each of its shards, or each replica's, has one record
            record = cell.record()
            records += _as_namesake([record], seen, (cell.name, cell.kind, cell.slot_of, record.shard, cell.replica))
    return [*records, *chain.from_iterable(table.placements() for table in tables)]


def _as_namesake(records: list[PlacementRecord], seen: Counter[tuple[object, ...]], key: tuple[object, ...]) -> list[PlacementRecord]:
    number = seen[key]
    seen[key] += 1
    return [replace(record, namesake=number) for record in records] if number else records
