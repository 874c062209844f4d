"""Calls whose bytes are those of rows: which servers a read asks, and how much each of them sends, is known when the step runs.

Row numbers count eight bytes each; those of a read are counted with the rows that come back, so that a request stays a message without
bytes. A server that has none of the rows is not asked. An update goes to every server that has a part of its variables, also without rows:
its count of steps must not differ from that of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from simdist.caches import BoundedCache
from simdist.program.row_numbers import RowNumbers
from simdist.program.values import Bundle
from simdist.runtime.linked import ApplyAll, ReadWithRows, TableRows
from simdist.runtime.linked_rows import ID_BYTES, RowOperands
from simdist.runtime.simulated.calls import CallPlan, ServerCall
from simdist.runtime.simulated.legs import Leg
from simdist.runtime.simulated.row_counts import RowCounts
from simdist.runtime.simulated.row_uses import RowTally, RowUses
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.world import World

__all__ = ["RowPushes", "RowReads"]

# With few servers the same sizes happen again and again: so many calls of one operation are kept then.
KEPT_SIZES = 32
FEW_SERVERS = 4
# A task keeps so many forms of what it asks of a server.
KEPT_PARTS = 8


class _Asked:
    """What a read asks of one server.

    Attributes:
        groups: that are read as a whole, with their positions; and their bytes.
        shards: for each shard of a table the number of the table, that of the shard in it, its group, its position, and the bytes of a row.
    """

    def __init__(self) -> None:
        self.groups: list[tuple[int, int]] = []
        self.size_bytes = 0
        self.shards: list[tuple[int, int, int, int, int]] = []


class RowReads:
    """The reads of one operation by one task.

    Args:
        world, task: where.
        op: the read.

    Attributes:
        first: for each table, the position of its first shard among all that is read: groups and parts of groups come first.
        count: how many groups and shards are read at most.
        here: groups and shards of the task itself, with their positions.
        elsewhere: groups of other tasks that are read as a whole, with their positions.
        own_shards: the shards of the task itself: the number of the table, and that of the shard in it.
        rows: how many were read of each shard, table by table.
        uses: of each table, the rows that were asked for.
    """

    def __init__(self, world: World, task: Task, op: ReadWithRows) -> None:
        self.world = world
        self.task = task
        self.op = op
        self.first: list[int] = []
        self.count = len(op.dense.groups) + len(op.parts)
        self._ranges = [[(shard.first, shard.stop) for shard in table.shards] for table in op.tables]
        self._asked = self._by_server()
        mine = self._asked.pop(task.name, _Asked())
        self.elsewhere = [read for asked in self._asked.values() for read in asked.groups]
        self.own_shards = {(table, shard) for table, shard, _, _, _ in mine.shards}
        self.here = [*mine.groups, *((group, position) for _, _, group, position, _ in mine.shards)]
        # By server and groups: a server with several tables is asked for rows of some of them.
        self._parts: BoundedCache[tuple[str, tuple[tuple[int, int], ...]], ServerCall] = BoundedCache(KEPT_PARTS * len(self._asked))
        self._kind = world.trace.kind(task.name, "read", "read", {"bytes": int, "rows": int})
        self._plans: BoundedCache[tuple[int, ...], CallPlan] = BoundedCache(KEPT_SIZES)
        self.rows = RowCounts()
        self.uses = [self._uses_of(table) for table in op.tables]

    def _uses_of(self, table: TableRows) -> RowUses:
        groups = self.world.states.groups
        cells = [groups[shard.group].cells[shard.position] for shard in table.shards]
        return self.world.table_uses.of_table(cells, table.ids.num_rows)

    def _by_server(self) -> dict[str, _Asked]:
        states, asked = self.world.states, dict[str, _Asked]()
        parts = [(part.group, part.output, part.size_bytes) for part in self.op.parts]
        for position, (group, _, size_bytes) in enumerate([*self.op.dense.groups, *parts]):
            server = asked.setdefault(states.groups[group].task, _Asked())
            server.groups.append((group, position))
            server.size_bytes += size_bytes
        for number, table in enumerate(self.op.tables):
            self.first.append(self.count)
            for shard_number, shard in enumerate(table.shards):
                server = asked.setdefault(states.groups[shard.group].task, _Asked())
                server.shards.append((number, shard_number, shard.group, self.count, table.row_bytes + ID_BYTES))
                self.count += 1
        return asked

    def plan(self, numbers: Sequence[RowNumbers]) -> CallPlan:
        """The call that asks for these rows."""
        for own, uses in zip(numbers, self.uses, strict=True):
            uses.reads.add(own.unique)
        counts = [own.counts_in(ranges) for own, ranges in zip(numbers, self._ranges, strict=True)]
        flat = tuple([count for own in counts for count in own])
        self.rows.add(flat)
        if len(self._asked) > FEW_SERVERS:
            return self._planned(counts)
        return self._plans.get(flat, lambda: self._planned(counts))

    def _planned(self, counts: Sequence[Sequence[int]]) -> CallPlan:
        parts, loaded, known = list[ServerCall](), list[Leg](), self._parts
        for name, asked in self._asked.items():
            groups, size_bytes = asked.groups[:], asked.size_bytes
            for table, shard, group, position, size in asked.shards:
                count = counts[table][shard]
                if count:
                    groups.append((group, position))
                    size_bytes += count * size
            if groups:
                key = name, tuple(groups)
                part = known.get(key, partial(self._part, *key))
                parts.append(part)
                loaded.append(part.back.sized(size_bytes))
        plan = CallPlan(parts, self.count, self.count, loaded)
        plan.kind = self._kind
        return plan

    def _part(self, name: str, groups: tuple[tuple[int, int], ...]) -> ServerCall:
        """What is asked of a server where these of its groups are wanted."""
        server, routes = self.world.tasks[name], self.world.routes
        part = ServerCall(self.world.servers[name], groups, None)
        return part.travel(routes.word(self.task, server, "read"), routes.leg(server, self.task, "read_reply", 0))


class RowPushes:
    """The pushes of one operation, some of whose operands are gradients of rows, by one task.

    Args:
        world, task: where.
        op: the update.
        kept: whether a part travels with the reply of the closure.

    Attributes:
        sent: the positions of the parts that are sent to servers.
        rows: how many gradients of rows were sent of each operand of rows, part by part.
        uses: of each gradient of rows, once for all shards of its table, the rows that it belongs to: the position of a part, the number
            of the operand in it, and the uses of the table.
    """

    def __init__(self, world: World, task: Task, op: ApplyAll, kept: Callable[[int], bool]) -> None:
        self.world = world
        self.task = task
        self.op = op
        self.sent = [position for position, part in enumerate(op.parts) if part.task != task.name and not kept(position)]
        self._kind = world.trace.kind(task.name, "update", "update", {"bytes": int})
        self._parts = [self._part(position) for position in self.sent]
        self._plans: BoundedCache[tuple[int, ...], CallPlan] = BoundedCache(KEPT_SIZES)
        self.rows = RowCounts()
        self.uses = self._uses()

    def _uses(self) -> list[tuple[int, int, RowTally]]:
        groups, found = self.world.states.groups, dict[tuple[int, int], tuple[int, int, RowTally]]()
        for position, part in enumerate(self.op.parts):
            for place, operand in enumerate(part.rows):
                cell = groups[part.group].cells[part.cells[len(part.given) + place]]
                found.setdefault((operand.number, operand.slot), (position, place, self.world.table_uses.of_cell(cell).updates))
        return list(found.values())

    def _part(self, position: int) -> ServerCall:
        update, routes = self.op.parts[position], self.world.routes
        server = self.world.tasks[update.task]
        part = ServerCall(self.world.servers[update.task], (), update, position)
        return part.travel(routes.leg(self.task, server, "update", 0), routes.word(server, self.task, "update_reply"))

    def plan(self, operands: Sequence[Bundle | RowOperands]) -> CallPlan:
        """The call that sends these operands."""
        sizes = tuple([self._size(position, operands[position]) for position in self.sent])
        self.rows.add(self._counts(operands))
        for position, place, updates in self.uses:
            given = operands[position]
            if isinstance(given, RowOperands):
                updates.add(given.numbers[place].unique)
        if len(self.sent) > FEW_SERVERS:
            return self._planned(sizes)
        return self._plans.get(sizes, lambda: self._planned(sizes))

    def _counts(self, operands: Sequence[Bundle | RowOperands]) -> tuple[int, ...]:
        """The rows of each operand of rows."""
        counts: list[int] = []
        for position in self.sent:
            given = operands[position]
            if isinstance(given, RowOperands):
                counts += given.counts
        return tuple(counts)

    def _size(self, position: int, operands: Bundle | RowOperands) -> int:
        return operands.size_bytes if isinstance(operands, RowOperands) else self.op.parts[position].size_bytes

    def _planned(self, sizes: Sequence[int]) -> CallPlan:
        loaded = [part.there.sized(size_bytes) for part, size_bytes in zip(self._parts, sizes, strict=True)]
        plan = CallPlan(self._parts, len(self.op.parts), len(self._parts), loaded)
        plan.kind = self._kind
        return plan
