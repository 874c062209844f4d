"""A read of groups and of rows: every server gives what it has when it is asked, and its rows are gathered at that moment.

The rows of one table that are asked for at the same moment, of whichever servers, are one entry of the ledger. It refers to the versions of
that moment, and to no later one; where servers are asked at different moments, the last entry puts the rows together.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from simdist.caches import bounded
from simdist.ledger.ledger import Ledger
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.row_numbers import RowNumbers
from simdist.program.values import Aval, Bundle
from simdist.runtime.linked import TableRows
from simdist.runtime.linked_rows import gather_kernel
from simdist.runtime.simulated.calls import CallPlan, Replied, ServerCall
from simdist.runtime.simulated.reading import Reading
from simdist.runtime.simulated.row_calls import RowReads
from simdist.runtime.simulated.served import Errand
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.transport import Transport
from simdist.runtime.state import GroupStates

__all__ = ["RowReading", "TableGathers"]


class TableGathers:
    """Gathers rows of one table: the entries that a read of it needs.

    Args:
        ledger: that notes them.
        states: has the versions of the shards.
        table: of which rows are read.
    """

    def __init__(self, ledger: Ledger, states: GroupStates, table: TableRows) -> None:
        self.ledger = ledger
        self.states = states
        self.table = table
        self.site = ledger.site(gather_kernel(table), [shard.state for shard in table.shards], [(table.rows,)])

    def gather(self, found: Sequence[Bundle | None], numbers: RowNumbers, where: tuple[str, int, float]) -> Bundle:
        """The rows of some shards, at this moment; what stands in the place of rows of others has no meaning.

        Args:
            found: the version of each shard that was asked; None for others.
            numbers: of the rows.
            where: whose step it is.
        """
        inputs = [self._present(number) if version is None else version for number, version in enumerate(found)]
        return self.ledger.call(self.site, inputs, None, (numbers.unique,), where)[0]

    def _present(self, number: int) -> Bundle:
        """What stands for a shard of which no row is wanted: its present version, or zeros where that was lost."""
        shard = self.table.shards[number]
        bundle = self.states.bundles[shard.group]
        if bundle is not None:
            return bundle
        if shard.group in self.states.joined:
            return self.states.present(shard.group)
        return Bundle.of([jnp.zeros(aval.shape, aval.dtype) for aval in shard.state])

    def none(self) -> Bundle:
        """What stands for the rows where none is asked for."""
        return Bundle.of([jnp.zeros(self.table.rows.shape, self.table.rows.dtype)])

    def together(self, parts: Sequence[tuple[Bundle, Sequence[int]]], numbers: RowNumbers, where: tuple[str, int, float]) -> Bundle:
        """Rows that were gathered at different moments: for each part the numbers of its shards."""
        part_of_shard = np.zeros(len(self.table.shards), np.int32)
        for number, (_, shards) in enumerate(parts):
            part_of_shard[list(shards)] = number
        stops = [shard.stop for shard in self.table.shards]
        shards_of_rows = np.minimum(np.searchsorted(stops, numbers.unique, side="right"), len(stops) - 1)
        kernel = _joining(self.table.ids.name, self.table.rows, len(parts))
        site = self.ledger.site(kernel, [(self.table.rows,)] * len(parts), [(self.table.rows,)])
        return self.ledger.call(site, [rows for rows, _ in parts], None, (part_of_shard[shards_of_rows],), where)[0]


@bounded("kernels that join rows", size=64)
def _joining(name: str, rows: Aval, count: int) -> Kernel:
    """The kernel that takes so many arrays of rows [k, ...], and for each row [k] of which of them it is."""

    def joined(*arrays: jax.Array) -> list[jax.Array]:
        *parts, numbers = arrays
        chosen = parts[0]
        for number, part in enumerate(parts[1:], 1):
            chosen = jnp.where((numbers == number).reshape(-1, *[1] * (part.ndim - 1)), part, chosen)
        return [chosen]

    return kernel_of(f"rows of {name}", joined, [*[rows] * count, Aval((rows.shape[0],), "int32")])


class RowReading(Reading):
    """A read of groups and of rows from servers.

    Args:
        transport, client, plan, replied: as of `Reading`.
        reads: what is read, and in which order.
        gathers: one for each table.
        numbers: the rows, table by table.
        errand: as of `Reading`.

    Attributes:
        step: of the client, for error messages.
        parts: for each table, what was gathered so far, with the numbers of the shards that were asked.
    """

    __slots__ = ("gathers", "numbers", "parts", "reads", "step")

    def __init__(
        self,
        transport: Transport,
        client: Task,
        plan: CallPlan,
        replied: Replied,
        reads: RowReads,
        gathers: Sequence[TableGathers],
        numbers: Sequence[RowNumbers],
        errand: Errand | None = None,
    ) -> None:
        self.reads = reads
        self.gathers = gathers
        self.numbers = numbers
        self.step = client.steps
        self.parts: list[list[tuple[Bundle, list[int]]]] = [[] for _ in gathers]
        super().__init__(transport, client, plan, replied, (), errand, count=reads.count)

        if reads.here:
            states = reads.world.states
            for group, position in reads.here:
                self.found[position], self.versions[position] = states.present(group), states.version(group)
            self._gather([position for _, position in reads.here])

    def repeat(self) -> RowReading:
        """Ask all servers once more."""
        return RowReading(self.transport, self.client, self.plan, self.replied, self.reads, self.gathers, self.numbers, self.errand)

    def answered_now(self, parts: Sequence[ServerCall]) -> None:
        self._gather([position for part in parts for _, position in part.groups])

    def _gather(self, positions: Sequence[int]) -> None:
        """Gather rows of the shards at these positions, which were asked now."""
        where = (self.client.name, self.step, self.transport.clock.now)
        self._take_parts(positions, where)
        for number, (gathers, first) in enumerate(zip(self.gathers, self.reads.first, strict=True)):
            size = len(gathers.table.shards)
            asked = [position - first for position in positions if first <= position < first + size]
            found = self.found[first : first + size]
            known = {shard for _, shards in self.parts[number] for shard in shards}
            new = [shard for shard in asked if shard not in known and found[shard] is not None]
            if not new:
                continue
            versions = [found[shard] if shard in new else None for shard in range(size)]
            rows = gathers.gather(versions, self.numbers[number], where)
            self.parts[number].append((rows, new))
            for shard in new:
                self.found[first + shard] = rows  # nobody holds the version any longer: its table may be changed in place

    def _take_parts(self, positions: Sequence[int], where: tuple[str, int, float]) -> None:
        """Take out of groups what is needed of them, where they were asked now."""
        op, ledger, first = self.reads.op, self.reads.world.ledger, len(self.reads.op.dense.groups)
        for number, part in enumerate(op.parts):
            whole = self.found[first + number]
            if first + number in positions and whole is not None and whole.avals == part.state:
                site = ledger.site(part.kernel, [part.state], [part.kernel.out_avals])
                self.found[first + number] = ledger.call(site, (whole,), None, (), where)[0]

    @property
    def dense_groups(self) -> tuple[int, ...]:
        """The groups that come first in the result, whole."""
        return self.reads.op.dense.numbers

    @property
    def num_rows(self) -> int:
        """How many rows were read."""
        return sum([numbers.count for numbers in self.numbers])

    @property
    def versions_read(self) -> dict[int, int]:
        """The versions of the groups that were asked."""
        asked = [*self.reads.here, *(group for part in self.plan.parts for group in part.groups)]
        return {group: self.versions[position] for group, position in asked}

    def result(self) -> list[Bundle]:
        """Groups, and rows of tables."""
        op, found = self.reads.op, list[Bundle]()
        where = (self.client.name, self.step, self.transport.clock.now)
        for bundle in self.found[: len(op.dense.groups) + len(op.parts)]:
            assert bundle is not None
            found.append(bundle)
        for number, (gathers, parts) in enumerate(zip(self.gathers, self.parts, strict=True)):
            if not parts:  # of padding alone: no server was asked
                found.append(gathers.none())
            else:
                found.append(parts[0][0] if len(parts) == 1 else gathers.together(parts, self.numbers[number], where))
        return found
