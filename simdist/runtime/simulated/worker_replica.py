"""The task runtime of one replica of a worker: it computes on a device of the worker, and its variables are on parameter servers.

A read goes to the servers once for all replicas of the worker. What it brings into the worker's memory is then copied to each device, over
the links inside the host. An update waits for all replicas; the operands of the first are copied from its device, and sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from simdist.ledger.replica_lanes import ReplicaLanes
from simdist.program.row_numbers import RowNumbers
from simdist.program.values import Bundle
from simdist.runtime.base import PENDING, Later, OperationResult
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
        self._sends: tuple[ApplyAll, Sequence[Bundle | RowOperands]] | None = None
        self._counted: list[tuple[Apply, Bundle]] = []
        all_replicas.append(self)

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, op: ReadGroups) -> Sequence[Bundle] | Later:
        self.waits_for = "variables from parameter servers"
        size_bytes = sum([used_bytes for _, _, used_bytes in op.groups])
        self.once.read(self.order.read(op.numbers), op).then(lambda found: self._bring(size_bytes, found))
        return PENDING

    def read_rows(self, op: ReadWithRows, numbers: Sequence[RowNumbers]) -> Sequence[Bundle] | Later:
        raise AssertionError(f"{op}: steps of several replicas read whole tables")

    def _bring(self, size_bytes: int, found: OperationResult) -> None:
        """Copy what the worker has read to the device of this replica."""
        if not self.step.over:
            self._travel(self.task.name, self.device, size_bytes, "read", lambda: found)

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
        size_bytes = sum([part.size_bytes for part in op.parts])
        self._travel(self.device, self.task.name, size_bytes, "update", lambda: self._sent(op, operands))

    def _sent(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> Later:
        for replica in self.all_replicas:
            replica.waits_for = "parameter servers to confirm an update"
            replica.keep_counted()
        self.once.update(op, operands).then(lambda _: self._confirmed())
        return PENDING

    def _confirmed(self) -> None:
        for replica in list(self.all_replicas):
            replica.step.go()

    def keep_counted(self) -> None:
        """Let what this replica has counted travel with the reply."""
        for part, given in self._counted:
            self.once.errand.keep(part, self.priced, given)
        self._counted = []

    # -- the end of the step --------------------------------------------------------------------------------------

    @property
    def has_drawn(self) -> bool:
        """Whether it has drawn random numbers in this step."""
        return self._draws

    def step_done(self) -> None:
        """It is over for all replicas, or for none."""

    def count_step(self) -> None:
        """Let the task count the step, which is over for all replicas."""
        super().step_done()


def _dense(given: Bundle | RowOperands) -> Bundle:
    assert isinstance(given, Bundle)  # replicas count no rows of tables
    return given
