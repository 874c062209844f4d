"""The traffic of the variables of parameter servers, shard by shard: which are read and updated most, and how stale their updates are.

Taught in lesson 05.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from simdist.runtime.base import Engine
from simdist.trace.staleness import stale_updates, staleness_by_lane
from simdist.variables.state import Cell, Layout, PlacementRecord
from simdist.variables.traffic import CellTraffic, TrafficRecord
from simdist.variables.variable import Variable

__all__ = ["traffic_records"]


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
    return TrafficRecord(**placed, **vars(sums), staleness=staleness)
