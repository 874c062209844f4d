"""What the replicas of a worker ask of parameter servers, once for all of them.

The worker itself makes the calls, one after the other, as it makes those of a step with one replica: so repeated calls, identities of
pushes, rounds and updates that travel with the reply are the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence

from simdist.program.row_numbers import RowNumbers
from simdist.program.values import Bundle
from simdist.runtime.base import PENDING, OperationResult
from simdist.runtime.counted_reads import CountedReads
from simdist.runtime.interpreter import OVER
from simdist.runtime.linked import ApplyAll, ReadGroups, ReadWithRows
from simdist.runtime.linked_rows import RowOperands
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.served import Errand
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.task_runtime import SimulatedTask
from simdist.runtime.simulated.world import World

__all__ = ["Answer", "ServedOnce"]


class Answer:
    """The answer of servers, for all who wait for it."""

    def __init__(self) -> None:
        self.result: OperationResult = None
        self.is_there = False
        self._waiting: list[Callable[[OperationResult], None]] = []

    def then(self, answered: Callable[[OperationResult], None]) -> None:
        """Call a function with the result when it is there; at once if it is."""
        if self.is_there:
            answered(self.result)
        else:
            self._waiting.append(answered)

    def settle(self, result: OperationResult) -> None:
        """It is there."""
        self.result, self.is_there = result, True
        waiting, self._waiting = self._waiting, []
        for answered in waiting:
            answered(result)


class ServedOnce:
    """The reads and updates of one step of a worker, as the step in progress of its calls.

    Args:
        world, task: the worker.
        priced: the prices of the program of its first replica, whose updates are sent.
        joint_reads: the reads of rows of the step, each for all replicas.
        counted_reads: the reads to which all replicas come.
        errand: the closure.
        failed: is called with the error of a call.

    Attributes:
        over: whether the step does nothing any more.
    """

    def __init__(
        self,
        world: World,
        task: Task,
        priced: PricedProgram,
        joint_reads: Sequence[ReadWithRows],
        counted_reads: CountedReads,
        errand: Errand,
        failed: Callable[[BaseException], None],
    ) -> None:
        self.joint_reads = joint_reads
        self.counted_reads = counted_reads
        self.runtime = SimulatedTask(world, task, priced, errand)
        self.runtime.step = self
        self.errand = errand
        self.failed = failed
        self.over = False
        self._reads: dict[Hashable, Answer] = {}
        self._calls: deque[tuple[Callable[[], OperationResult], Answer]] = deque()  # the first one is under way

    def read(self, key: Hashable, op: ReadGroups) -> Answer:
        """The answer to a read; replicas with the same key get the same one."""
        answer = self._reads.get(key)
        if answer is None:
            answer = self._reads[key] = self._asked(lambda: self.runtime.read(op))
        return answer

    def read_rows(self, op: ReadWithRows, numbers: Sequence[RowNumbers]) -> Answer:
        """The answer to a read of rows to which all replicas have come."""
        return self._asked(lambda: self.runtime.read_rows(op, numbers))

    def update(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> Answer:
        """Send an update; the answer is there when it is confirmed."""
        return self._asked(lambda: self.runtime.update(op, operands))

    def _asked(self, call: Callable[[], OperationResult]) -> Answer:
        answer = Answer()
        self._calls.append((call, answer))
        if len(self._calls) == 1:
            self._begin()
        return answer

    def _begin(self) -> None:
        try:
            result = self._calls[0][0]()
        except Exception as error:
            self.fail(error)
            return
        if result is not PENDING:
            self.go(result)

    def go(self, result: OperationResult = None) -> None:
        """The call that was under way has its answer; the next one begins."""
        if self.over:
            return
        _, answer = self._calls.popleft()
        if self._calls:
            self._begin()
        answer.settle(result)

    def fail(self, error: BaseException) -> None:
        """The call that was under way has failed, and the step with it."""
        if not self.over:
            self.failed(error)

    def stop(self) -> None:
        """Cancel what is under way."""
        self.over = True
        self.runtime.drop_call()
        self._calls.clear()
        self._reads.clear()
        self.runtime.step = OVER
