"""Which maps share a table: those whose functions are certain to be the same.

Functions written anew in every worker's `dataset_fn` are recognised by their code and by all that they reach (reach.py), so that a
thousand workers compute a mapped table once.

Invariants: all copies of one map step have one table over one source. Another step's table is used again only where its rows were
computed while all that the function reaches was as it is now.

Taught in lesson 08.
"""

from __future__ import annotations

from simdist.data.leaves import ElementFunction
from simdist.data.mapped import MappedTable
from simdist.data.purity import Answer, answers, is_pure
from simdist.data.reach import UNKNOWN, Reach, reached
from simdist.data.row_wise import Record, recorded
from simdist.data.surroundings import warn_of_changed_names
from simdist.data.table import Table

__all__ = ["ComputedTables", "mapped_table"]

ComputedTables = dict[Table, MappedTable]
"""The tables of one map step, by source."""

REMEMBERED = 8  # functions whose results one table keeps


def mapped_table(source: Table, fn: ElementFunction, pure: bool | None, computed: ComputedTables) -> MappedTable | None:
    """The table of `fn` over `source`, shared by equal functions; None if `fn` is not pure.

    Args:
        source: the table that is mapped.
        fn: a function of one row.
        pure: whether it is pure; None finds out.
        computed: the tables that this step has; a new one is entered.
    """
    if pure is False:
        return None
    warn_of_changed_names(fn, "the dataset")
    found = computed.get(source)
    if found is None or not found.is_current:
        reach = reached(fn)
        used: Record = {}
        known = answered(fn, source, pure, reach, used)
        if known is None:
            return None
        if not reach.is_unchanged:
            reach = UNKNOWN
        found = shared_table(source, reach, known) or MappedTable(source, fn, known, used, reach)
        computed[source] = found
        remember(found, reach, source)
    return found


def answered(fn: ElementFunction, source: Table, pure: bool | None, reach: Reach, used: Record) -> dict[int, Answer] | None:
    """What the function answers on the probed rows; None if it is not pure."""
    if pure:
        return {}
    return None if reach.generator is not None else recorded(used, lambda: answers(fn, source, reach))


def shared_table(source: Table, reach: Reach, known: dict[int, Answer]) -> MappedTable | None:
    """The table that an equal function has made of the same source, if there is one."""
    found = source.derived.get(reach.key) if reach.key is not None else None
    if not isinstance(found, MappedTable) or not found.is_current or not found.is_certain:
        return None
    return found if is_pure(known, found.ask_row) and found.is_certain else None


def remember(table: MappedTable, reach: Reach, source: Table) -> None:
    """Have equal functions find this table."""
    if reach.key is not None:
        source.derived[reach.key] = table
        while len(source.derived) > REMEMBERED:
            del source.derived[next(iter(source.derived))]
