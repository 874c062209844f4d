"""The task runtime of one replica of a worker: it computes on a device of the worker, and its variables are on parameter servers.

A read goes to the servers once for all replicas of the worker. What it brings into the worker's memory is then copied to each device, over
the links inside the host. A read of rows waits until all replicas have said which; each device gets its own. A read of what the replicas
have counted in the step waits for all of them. An update does, too; the operands of the first are copied from its device, and sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simdist.ledger.entry import Site
from simdist.ledger.replica_lanes import ReplicaLanes
from simdist.program.arrays import Array
from simdist.program.row_numbers import RowNumbers
from simdist.program.values import Bundle
from simdist.randomness import step_key
from simdist.runtime.base import PENDING, Later, OperationResult
from simdist.runtime.joint_rows import own_rows
from simdist.runtime.linked import Apply, ApplyAll, ReadGroups, ReadWithRows
from simdist.runtime.linked_rows import RowOperands
from simdist.runtime.replicas import Member
from simdist.runtime.simulated.collective_group import CollectiveGroup
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.served_once import ServedOnce
from simdist.runtime.simulated.taking_part import TakesPart
from simdist.runtime.simulated.world import World
from simdist.runtime.worker_replicas import ReadOrder

__all__ = ["WorkerReplica"]


class WorkerReplica(TakesPart):
    """One replica of a worker in one step, as `TaskRuntime`.

    Args:
        world, member, priced, collective_group, lanes, lane: as of `TakesPart`.
        once: asks the servers, for all replicas.
        all_replicas: those of the step, by rank; this one is added.
    """

    def __init__(
        self,
        world: World,
        member: Member,
        priced: PricedProgram,
        collective_group: CollectiveGroup,
        lanes: ReplicaLanes,
        lane: int,
        once: ServedOnce,
        all_replicas: list[WorkerReplica],
    ) -> None:
        super().__init__(world, member, priced, collective_group, lanes, lane)
        self.once = once
        self.all_replicas = all_replicas
        self.order = ReadOrder()
        self.update_number = -1  # of the update that it waits for
        self.row_read_number = -1  # of the read of rows that it waits for
        self.counted_read_number = -1  # of the read of what all have counted that it waits for
        self._asks: ReadGroups | None = None
        self._wants: tuple[ReadWithRows, Sequence[RowNumbers]] | None = None
        self._sends: tuple[ApplyAll, Sequence[Bundle | RowOperands]] | None = None
        self._counted: list[tuple[Apply, Bundle]] = []
        all_replicas.append(self)

    def random_key(self, salt: int) -> Array:
        return step_key(self.world.seed, *self.once.errand.draw(), salt, "replica", self.rank)

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, op: ReadGroups) -> Sequence[Bundle] | Later:
        if op in self.once.counted_reads:
            self._read_counted(op)
        else:
            self._ask(op)
        return PENDING

    def _read_counted(self, op: ReadGroups) -> None:
        """Read when all replicas have come: what they have counted counts before."""
        self.waits_for = "the other replicas of its worker to come to a read of what they count"
        self.counted_read_number += 1
        self._asks = op
        if all(replica.counted_read_number == self.counted_read_number for replica in self.all_replicas):
            self._keep_all_counted()
            for replica in list(self.all_replicas):
                replica.ask_counted()

    def _keep_all_counted(self) -> None:
        for replica in self.all_replicas:
            replica.keep_counted()

    def ask_counted(self) -> None:
        """Ask for the read to which all have come."""
        assert self._asks is not None
        op, self._asks = self._asks, None
        self._ask(op)

    def _ask(self, op: ReadGroups) -> None:
        self.waits_for = "variables from parameter servers"
        self._leads_to_call(self)
        size_bytes = sum([used_bytes for _, _, used_bytes in op.groups])
        self.once.read(self.order.read(op.numbers), op).then(lambda found: self._bring(size_bytes, lambda: found))

    def read_rows(self, op: ReadWithRows, numbers: Sequence[RowNumbers]) -> Sequence[Bundle] | Later:
        self.waits_for = "the other replicas of its worker to come to a lookup of rows"
        self.row_read_number += 1
        self._wants = op, numbers
        if all(replica.row_read_number == self.row_read_number for replica in self.all_replicas):
            self._read_together()
        return PENDING

    def _read_together(self) -> None:
        """Ask for the rows of all replicas, which have come to this read."""
        joint, wanted = self.once.joint_reads[self.row_read_number], list[Sequence[RowNumbers]]()
        for replica in self.all_replicas:
            assert replica._wants is not None
            replica.waits_for = "rows of variables from parameter servers"
            wanted.append(replica._wants[1])
        if any(replica._wants is not None and replica._wants[0].dense in self.once.counted_reads for replica in self.all_replicas):
            self._keep_all_counted()
        self._leads_to_call(*self.all_replicas)
        numbers = [table.ids.together(same) for table, same in zip(joint.tables, zip(*wanted, strict=True), strict=True)]
        self.once.read_rows(joint, numbers).then(lambda found: self._share(joint, found))

    def _share(self, joint: ReadWithRows, found: Sequence[Bundle]) -> None:
        for replica in list(self.all_replicas):
            replica.bring_rows(joint, found)

    def bring_rows(self, joint: ReadWithRows, found: Sequence[Bundle]) -> None:
        """Copy what this replica has asked for to its device."""
        assert self._wants is not None
        (op, numbers), self._wants = self._wants, None
        size_bytes = sum([used_bytes for _, _, used_bytes in op.dense.groups]) + sum([part.size_bytes for part in op.parts])
        size_bytes += sum([own.count * table.row_bytes for table, own in zip(op.tables, numbers, strict=True)])
        self._bring(size_bytes, lambda: self._with_own_rows(op, numbers, joint, found))

    def _with_own_rows(
        self, op: ReadWithRows, numbers: Sequence[RowNumbers], joint: ReadWithRows, found: Sequence[Bundle]
    ) -> Sequence[Bundle]:
        """What this replica has asked for, of what servers gave to all."""
        sites, first = self._sites_of_rows(op, joint), len(found) - len(op.tables)
        by_group = dict(zip(joint.dense.numbers, found, strict=False))
        where = (self.device, self.number, self.clock.now)
        own = [*(by_group[group] for group in op.dense.numbers), *found[len(by_group) : first]]
        for site, rows, mine in zip(sites, found[first:], numbers, strict=True):
            own += self.lanes.call(self.lane, site, (rows,), None, (mine.joint_positions,), where)
        return own

    def _sites_of_rows(self, op: ReadWithRows, joint: ReadWithRows) -> Sequence[Site]:
        sites = self.task.plans.get((op, joint))
        if sites is None:
            sites = self.task.plans[op, joint] = []
            for own, of_all in zip(op.tables, joint.tables, strict=True):
                kernel = own_rows(own.ids.name, of_all.rows, own.rows)
                sites.append(self.world.ledger.site(kernel, [(of_all.rows,)], [(own.rows,)]))
        return sites

    def _bring(self, size_bytes: int, found: Callable[[], OperationResult]) -> None:
        """Copy what the worker has read to the device of this replica."""
        if not self.step.over:
            self._follows_call()
            self._travel({(self.task.name, self.device): size_bytes}, "read", found)

    # -- causes: the worker makes a call after what its devices have done, and they go on after it --------------------

    def _leads_to_call(self, *replicas: WorkerReplica) -> None:
        """The call that the worker makes next follows what these replicas have done."""
        worker = self.task.processor
        worker.last = max(worker.last, *(replica.processor.last for replica in replicas))

    def _follows_call(self) -> None:
        """What this replica does next follows the call of the worker that has ended."""
        self.processor.last = max(self.processor.last, self.task.processor.last)

    # -- updating -------------------------------------------------------------------------------------------------

    def update(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> Later | None:
        if op.of_each:
            self._counted += [(part, _dense(given)) for part, given in zip(op.parts, operands, strict=True)]
            return None
        self.waits_for = "the other replicas of its worker to come to an update"
        self.update_number = number = self.order.update()
        self._sends = (op, operands) if self.lane == 0 else None
        if all(replica.update_number == number for replica in self.all_replicas):
            self.all_replicas[0].send()
        return PENDING

    def send(self) -> None:
        """Copy the operands of an update to which all have come from this device, and let the worker send them."""
        assert self._sends is not None
        op, operands = self._sends
        self._sends = None
        given = zip(op.parts, operands, strict=True)
        size_bytes = sum([own.size_bytes if isinstance(own, RowOperands) else part.size_bytes for part, own in given])
        self._travel({(self.device, self.task.name): size_bytes}, "update", lambda: self._sent(op, operands))

    def _sent(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> Later:
        for replica in self.all_replicas:
            replica.waits_for = "parameter servers to confirm an update"
            replica.keep_counted()
        self._leads_to_call(*self.all_replicas)
        self.once.update(op, operands).then(lambda _: self._confirmed())
        return PENDING

    def _confirmed(self) -> None:
        for replica in list(self.all_replicas):
            replica._follows_call()
            replica.step.go()

    def keep_counted(self) -> None:
        """Let what this replica has counted travel with the reply; where the step runs on the task that has it, it counts at once."""
        now, name = self.clock.now, self.task.name
        for part, given in self._counted:
            if part.task == name:
                where = name, self.number, now
                self.world.servers[name].commit(part, self.priced.sites[part.number], given, now, now, where, None)
            else:
                self.once.errand.keep(part, self.priced, given)
        self._counted = []

    # -- the end of the step --------------------------------------------------------------------------------------

    def step_done(self) -> None:
        """It is over for all replicas, or for none."""

    def count_step(self) -> None:
        """Let the task count the step, which is over for all replicas."""
        super().step_done()


def _dense(given: Bundle | RowOperands) -> Bundle:
    assert isinstance(given, Bundle)  # replicas count no rows of tables
    return given
