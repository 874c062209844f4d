"""The traffic of the variables of parameter servers, shard by shard: which are read and updated most, and how stale their updates are; and
the rows of tables that are hot.

Taught in lesson 06.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from simdist.errors import InvalidArgumentError
from simdist.runtime.base import Engine
from simdist.trace.staleness import stale_updates, staleness_by_lane
from simdist.variables.layout import Layout
from simdist.variables.placement_record import PlacementRecord
from simdist.variables.state import Cell
from simdist.variables.traffic import CellTraffic, HotRow, TrafficRecord, hottest_rows
from simdist.variables.variable import Variable
from simdist.variables.variable_store import VariableStore

__all__ = ["hot_rows", "named", "traffic_records"]

HOT_ROWS = 3  # that a record names


def traffic_records(
    engine: Engine, placements: Sequence[PlacementRecord], variables: Sequence[Variable], layout: Layout
) -> list[TrafficRecord]:
    """The records of a shard map with their traffic.

    Args:
        engine: that has moved the values.
        placements: of the strategy: first those of its variables, then those of other cells, then those of lookup tables.
        variables: of the strategy.
        layout: has all its cells.

    Raises:
        FailedPreconditionError: nothing travels in this engine.
    """
    cells = _cells_in_order(variables, layout)
    traffic = engine.traffic(cells)
    traffic += [CellTraffic()] * (len(placements) - len(cells))  # lookup tables
    staleness = staleness_by_lane(engine.trace, stale_updates(engine.trace))
    return [_record(place, sums, staleness.get(place.task, (None, 0))[0]) for place, sums in zip(placements, traffic, strict=True)]


def _cells_in_order(variables: Sequence[Variable], layout: Layout) -> list[Cell]:
    """The cell of each record: of variables one for each device that has a copy of it, then those that belong to no variable."""
    held = [cell for variable in variables for cell in variable.placement.cells]
    known = set(held)
    return [cell for cell in held for _ in cell.devices] + [cell for cell in layout.cells() if cell not in known]


def _record(place: PlacementRecord, sums: CellTraffic, staleness: float | None) -> TrafficRecord:
    placed = {field.name: getattr(place, field.name) for field in fields(PlacementRecord)}
    hot = () if sums.row_uses is None else tuple(hottest_rows(place.task, place.row_start, *sums.row_uses, HOT_ROWS))
    return TrafficRecord(
        **placed,
        reads=sums.reads,
        updates=sums.updates,
        bytes_read=sums.bytes_read,
        bytes_updated=sums.bytes_updated,
        version=sums.version,
        staleness=staleness,
        hot_rows=hot,
    )


def named(variables: Sequence[Variable], name: str) -> Variable:
    """The variable that has a name.

    Raises:
        InvalidArgumentError: none has it, or several.
    """
    found = [variable for variable in variables if variable.name == name]
    if len(found) != 1:
        known = ", ".join(map(repr, dict.fromkeys(variable.name for variable in variables))) or "none"
        why = f"{len(found)} variables of this strategy have the name" if found else "no variable of this strategy has the name"
        raise InvalidArgumentError(f"{why} {name!r}; its variables are {known}. Give the variable itself, or one of these names.")
    return found[0]


def hot_rows(engine: Engine, store: VariableStore[Variable], table: Variable, count: int) -> list[HotRow]:
    """The rows of a table that steps have looked up most often, the hottest first.

    Args:
        engine: that has moved them.
        store: of the strategy that was asked.
        table: whose.
        count: how many at most.

    Raises:
        InvalidArgumentError: a variable of another strategy.
        FailedPreconditionError: nothing travels in this engine.
    """
    if table.placement.store is not store:
        raise InvalidArgumentError(f"{table.name!r} is no variable of this strategy. Ask the one in whose scope it was made.")
    cells = table.placement.cells
    found: list[HotRow] = []
    for cell, traffic in zip(cells, engine.traffic(cells), strict=True):
        if traffic.row_uses is not None:
            first = cell.rows[0] if cell.rows else 0
            found += hottest_rows(cell.task, first, *traffic.row_uses, count)
    return sorted(found, key=lambda hot: (-hot.reads, -hot.updates, hot.row))[:count]
