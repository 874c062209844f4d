"""What the executor does with each decision of the queue, with workers whose replies the test gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import simdist as sd
from simdist.coordinator.closure import Closure
from simdist.coordinator.executor import ClosureExecutor
from simdist.coordinator.queue import ClosureQueue
from simdist.coordinator.remote_value import Result
from simdist.errors import CancelledError, TimedOutError


class Reply:
    """The handle of a call, whose reply the test gives."""

    def __init__(self, refused: Exception | None = None) -> None:
        self.error: BaseException | None = None
        self.value: Any = None
        self.accepted = 0
        self.refused = refused
        self._replied: Callable[[], None] = lambda: None

    def then(self, replied: Callable[[], None]) -> None:
        self._replied = replied

    def accept(self) -> None:
        if self.refused is not None:
            raise self.refused
        self.accepted += 1

    def come(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value, self.error = value, error
        self._replied()


class Bench:
    """An executor, and workers that only note what they were sent."""

    def __init__(self) -> None:
        self.strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}))
        self.queue = ClosureQueue()
        self.sent: list[tuple[str, int, Reply]] = []
        self.calls: list[str] = []
        self.refused: Exception | None = None
        pool: Any = self
        self.executor = ClosureExecutor(
            self.strategy.engine, self.queue, pool, False, lambda: self.calls.append("ended"), lambda: self.calls.append("changed")
        )

    def call_function(self, task: str, function: Any, number: int, ticket: Any, argument_bytes: int) -> Reply:
        self.sent.append((task, number, Reply(self.refused)))
        return self.sent[-1][2]

    def up(self, worker: str) -> None:
        self.executor.carry_out(self.queue.worker_up(worker))

    def schedule(self, number: int, tolerated_time_outs: int = 1) -> Result:
        result = Result(self.strategy.engine, number, lambda number: None)
        self.executor.closures[number] = Closure(self.strategy, lambda: None, (), {}, result, tolerated_time_outs=tolerated_time_outs)
        self.executor.carry_out(self.queue.schedule(number))
        return result


def test_a_reply_counts_and_ends_its_closure() -> None:
    bench = Bench()
    bench.up("worker:0")
    result = bench.schedule(0)
    (worker, number, reply) = bench.sent[0]
    assert (worker, number, bench.executor.pending) == ("worker:0", 0, 1)
    bench.calls.clear()
    reply.come(7)
    assert (result.state, reply.accepted, bench.executor.pending, bench.executor.closures) == ("ready", 1, 0, {})
    assert bench.calls == ["ended", "changed"]


def test_a_reply_of_a_worker_that_was_replaced_does_not_count() -> None:
    bench = Bench()
    bench.up("worker:0")
    result = bench.schedule(0)
    bench.executor.carry_out(bench.queue.worker_down("worker:0"))
    bench.up("worker:1")
    (_, _, late), (worker, number, reply) = bench.sent
    late.come(1)
    assert (worker, number, late.accepted, result.state) == ("worker:1", 0, 0, "pending")
    reply.come(2)
    assert (reply.accepted, result.state) == (1, "ready")


def test_a_closure_whose_messages_are_lost_is_run_again_as_often_as_is_tolerated() -> None:
    bench = Bench()
    bench.up("worker:0")
    result = bench.schedule(0, tolerated_time_outs=1)
    bench.sent[0][2].come(error=TimedOutError("lost."))
    assert (len(bench.sent), result.state) == (2, "pending")
    bench.sent[1][2].come(error=TimedOutError("lost."))
    assert result.state == "failed" and "run again 1 times" in str(bench.queue.take_error())


def test_what_cannot_be_accepted_is_the_error_of_its_closure_and_cancels_what_is_queued() -> None:
    bench = Bench()
    bench.refused = ValueError("these updates cannot be applied")
    bench.up("worker:0")
    failed, cancelled = bench.schedule(0), bench.schedule(1)
    bench.sent[0][2].come(7)
    assert failed.error is bench.refused and isinstance(cancelled.error, CancelledError)
    assert bench.executor.pending == 0 and bench.queue.take_error() is bench.refused
