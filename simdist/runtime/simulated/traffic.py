"""What has travelled for each cell, from what tasks know of the calls that they have made.

A call plan counts its uses, and the linked operation that it belongs to says which cells it is about; so a step pays for one addition a
call, and all else is worked out here, when it is asked for.

Not counted: what a task reads and updates on itself, and updates of the chief's variables, which travel with the reply of a closure.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from simdist.runtime.linked import ApplyAll, ReadGroups, ReadWithRows
from simdist.runtime.linked_rows import ID_BYTES
from simdist.runtime.simulated.calls import CallPlan
from simdist.runtime.simulated.row_calls import RowPushes, RowReads
from simdist.runtime.simulated.world import World
from simdist.variables.state import Cell
from simdist.variables.traffic import CellTraffic

__all__ = ["traffic_of"]

CellPosition = tuple[int, int]
"""Of a cell: the number of a group that it is in, or was in, and its position there."""


class _Sums:
    """Calls and bytes by cell."""

    def __init__(self, world: World) -> None:
        self.groups = world.states.groups
        self.calls: dict[Cell, int] = {}
        self.bytes: dict[Cell, int] = {}

    def add(self, at: CellPosition, calls: int, units: int, unit_bytes: int | None = None) -> None:
        """Add some calls, and units that travelled in them, each of so many bytes; default those of the whole cell."""
        # A group knows its cells also after it was joined with others, so this is the cell, wherever it is by now.
        group, position = at
        cell = self.groups[group].cells[position]
        self.calls[cell] = self.calls.get(cell, 0) + calls
        self.bytes[cell] = self.bytes.get(cell, 0) + units * (cell.aval.size_bytes if unit_bytes is None else unit_bytes)


def traffic_of(world: World, cells: Sequence[Cell]) -> list[CellTraffic]:
    """What has travelled for these cells, all tasks and all incarnations together."""
    reads, updates = _Sums(world), _Sums(world)
    for task in world.tasks.values():
        for key, known in task.plans.items():
            _add(reads, updates, key, known)
    found: list[CellTraffic] = []
    for cell in cells:
        calls = reads.calls.get(cell, 0), updates.calls.get(cell, 0)
        sizes = reads.bytes.get(cell, 0), updates.bytes.get(cell, 0)
        found.append(CellTraffic(*calls, *sizes, world.states.version(cell.group.number), world.table_uses.of_shard(cell)))
    return found


def _add(reads: _Sums, updates: _Sums, key: Hashable, known: object) -> None:
    """Add what one entry of the plans of a task stands for; that of a read of rows also has what gathers them."""
    match key, known:
        case ReadGroups(), CallPlan():
            for at in _positions(known, key.cells):
                reads.add(at, known.uses, known.uses)
        case ReadWithRows(), (RowReads() as asked, _):
            _add_row_reads(reads, key, asked)
        case ApplyAll(), CallPlan():
            for update in [part.update for part in known.parts if part.update is not None]:
                for position, aval in zip(update.cells, update.given, strict=False):  # those of rows are the last
                    updates.add((update.group, position), known.uses, known.uses, aval.size_bytes)
        case _, RowPushes():
            _add_row_pushes(updates, known)
        case _:
            pass


def _positions(plan: CallPlan, cells: Sequence[Sequence[int]]) -> Iterator[CellPosition]:
    """The cells that servers give; `cells` are the positions of those that are used, group by group."""
    for part in plan.parts:
        for group, place in part.groups:
            for position in cells[place]:
                yield group, position


def _add_row_reads(reads: _Sums, op: ReadWithRows, asked: RowReads) -> None:
    """Groups are read as a whole in every call, of tables only the rows."""
    calls, counts = asked.rows.calls, iter(zip(*asked.rows.totals(), strict=True))
    cells = [*op.dense.cells, *(part.positions for part in op.parts)]
    for group, place in asked.elsewhere:
        for position in cells[place]:
            reads.add((group, position), calls, calls)
    for number, table in enumerate(op.tables):
        for place, shard in enumerate(table.shards):
            shard_calls, rows = next(counts, (0, 0))
            if (number, place) not in asked.own_shards:
                reads.add((shard.group, shard.position), shard_calls, rows, table.row_bytes + ID_BYTES)


def _add_row_pushes(updates: _Sums, pushes: RowPushes) -> None:
    """The gradients of rows; what is pushed beside them is counted with the plan of the whole update."""
    counts = iter(zip(*pushes.rows.totals(), strict=True))
    for place in pushes.sent:
        part = pushes.op.parts[place]
        for operand, position in zip(part.rows, part.cells[len(part.given) :], strict=True):
            calls, rows = next(counts, (0, 0))
            updates.add((part.group, position), calls, rows, operand.row_bytes + ID_BYTES)
