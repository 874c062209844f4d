"""What is new in the scope of a strategy, a variable or a lookup table, gets its place, and the trace says where.

On which tasks the cells of a variable go is said by the strategy (`Strategy.place`).
"""

from __future__ import annotations

from typing import Protocol

from simdist.errors import InvalidArgumentError, ResourceExhaustedError, UnavailableError
from simdist.lookup.worker_copies import TableCopies
from simdist.program.arrays import Array
from simdist.program.scope import require_libraries
from simdist.program.tracing import active_tracer
from simdist.runtime.base import Engine
from simdist.runtime.store import Store
from simdist.variables.handles import variable_of
from simdist.variables.placement import Placement
from simdist.variables.reachability import KnownVariables
from simdist.variables.variable import Variable

__all__ = ["hold_table", "place_new"]


class PlacingStrategy(Protocol):
    """What placing a variable needs of its strategy."""

    engine: Engine
    store: Store
    known_variables: KnownVariables[Variable]
    has_worker_copies: bool

    def place(self, variable: Variable, value: Array, /) -> Placement[Variable]: ...


def place_new(strategy: PlacingStrategy, variable: Variable, value: Array) -> None:
    """Place a new variable, with this first value. One that the step being traced has made before gets the place of that one.

    Raises:
        InvalidArgumentError: each worker should have a copy, and this strategy has none.
        ResourceExhaustedError, UnavailableError: a task has no memory for it, or is down; then no cell of it is left.
    """
    require_libraries()
    tracer = active_tracer()
    twin = None if tracer is None else tracer.existing_variable(variable)
    if twin is not None:
        variable.placement = variable_of(twin).placement
        return
    if variable.per_worker and not strategy.has_worker_copies:
        raise InvalidArgumentError(
            f"The variable {variable.name!r} has per_worker_variable=True, which {type(strategy).__name__} does not know. Make it in the "
            "scope of a ParameterServerStrategy, or leave the argument out."
        )
    strategy.engine.versions.give_up_numbers()
    layout = strategy.store.layout
    before = layout.newest
    try:
        variable.placement = strategy.place(variable, value)
    except (ResourceExhaustedError, UnavailableError):
        layout.take_back(before)
        raise
    strategy.known_variables.append(variable)
    engine = strategy.engine
    for record in variable.placements():
        rows = [record.row_start, record.row_stop]
        engine.trace.instant(record.task, "place", variable.name, engine.now, shard=record.shard, rows=rows, bytes=record.size_bytes)


def hold_table(engine: Engine, tables: list[TableCopies], table: TableCopies) -> None:
    """Note that a lookup table was made, or has other entries than before; of tables with one name, the later ones are numbered.

    Args:
        engine: has the trace.
        tables: of the strategy; a new one is added.
        table: the one.
    """
    if table not in tables:
        equal_names = sum(known.base_name == table.base_name for known in tables)
        table.name = f"{table.base_name}_{equal_names}" if equal_names else table.base_name
        tables.append(table)
    for record in table.placements():
        engine.trace.instant(record.task, "place", table.name, engine.now, kind="table", bytes=record.size_bytes)
