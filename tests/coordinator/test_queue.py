"""The closure queue: transition by transition, and whatever order the facts come in; the judge knows no table."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broken_tables import broken_tables
from simdist.coordinator import queue as queue_module
from simdist.coordinator.closure_states import CLOSURES, WORKERS, ClosureAction, ClosureFact, ClosureState, WorkerFact, WorkerState
from simdist.coordinator.queue import Attempt, ClosureDecision, ClosureQueue
from simdist.coordinator.synchronization import Asynchronous
from simdist.transitions import ImpossibleFactError

WORKER_NAMES = ["worker:0", "worker:1", "worker:2"]
Kinds = list[tuple[str, int]]


def kinds(decisions: list[ClosureDecision]) -> Kinds:
    return [(decision.kind, decision.closure) for decision in decisions]


def attempts(decisions: list[ClosureDecision]) -> list[Attempt]:
    return [decision.attempt for decision in decisions if decision.kind is ClosureAction.DISPATCH and decision.attempt is not None]


@pytest.fixture
def queue() -> ClosureQueue:
    queue = ClosureQueue()
    queue.worker_up("worker:0")
    return queue


def test_scheduled_closure_goes_to_an_idle_worker(queue: ClosureQueue) -> None:
    assert queue.schedule(0) == [ClosureDecision(ClosureAction.DISPATCH, 0, "worker:0")]
    assert queue.schedule(1) == []
    assert queue.pending == 2


def test_lost_closure_runs_again_before_the_queued_ones(queue: ClosureQueue) -> None:
    for closure in range(3):
        queue.schedule(closure)
    assert kinds(queue.worker_down("worker:0")) == [("retry", 0)]
    assert kinds(queue.worker_up("worker:1")) == [("dispatch", 0)]


def test_closures_that_are_given_up_are_cancelled_where_they_are_queued(queue: ClosureQueue) -> None:
    for closure in range(4):
        queue.schedule(closure)
    assert kinds(queue.given_up([0, 2])) == [("cancel", 2)]
    assert list(queue.queue) == [1, 3] and queue.pending == 3
    assert kinds(queue.worker_down("worker:0")) == [("retry", 0)], "one that runs goes on"


def test_closure_whose_message_was_lost_goes_to_another_idle_worker_first(queue: ClosureQueue) -> None:
    (attempt,) = attempts(queue.schedule(0))
    queue.worker_up("worker:1")
    assert [(each.kind, each.worker) for each in queue.timed_out(attempt)] == [("retry", "worker:0"), ("dispatch", "worker:1")]
    assert list(queue.idle) == ["worker:0"]


@pytest.mark.parametrize("back_on", ["worker:0", "worker:1"])
def test_late_reply_of_a_worker_that_was_away_is_ignored(queue: ClosureQueue, back_on: str) -> None:
    (lost,) = attempts(queue.schedule(0))
    queue.worker_down("worker:0")
    assert queue.completed(lost) == [] and queue.pending == 1
    (second,) = attempts(queue.worker_up(back_on))
    assert not queue.is_current(lost) and queue.is_current(second)
    assert queue.completed(lost) == queue.raised(lost, ValueError("late")) == queue.timed_out(lost) == []
    assert kinds(queue.completed(second)) == [("resolve", 0)]
    assert queue.completed(lost) == [] and queue.take_error() is None


def test_error_cancels_what_is_queued_and_is_given_once(queue: ClosureQueue) -> None:
    (attempt,) = attempts(queue.schedule(0))
    queue.schedule(1), queue.schedule(2)
    error = ValueError("x")
    assert kinds(queue.raised(attempt, error)) == [("fail", 0), ("cancel", 1), ("cancel", 2)]
    assert queue.take_error() is error
    assert queue.take_error() is None
    assert kinds(queue.schedule(3)) == [("dispatch", 3)]


def test_only_the_first_of_two_errors_is_kept(queue: ClosureQueue) -> None:
    queue.worker_up("worker:1")
    (zero,), (one,) = attempts(queue.schedule(0)), attempts(queue.schedule(1))
    first = ValueError("first")
    queue.raised(one, first)
    queue.raised(zero, ValueError("second"))
    assert queue.take_error() is first


@pytest.mark.parametrize("taken", [False, True])
def test_closure_of_a_worker_that_dies_is_run_again_only_when_no_error_waits(queue: ClosureQueue, taken: bool) -> None:
    queue.worker_up("worker:1")
    (zero,) = attempts(queue.schedule(0))
    queue.schedule(1)
    queue.raised(zero, ValueError("x"))
    if taken:
        queue.take_error()
    assert kinds(queue.worker_down("worker:1")) == ([("retry", 1), ("dispatch", 1)] if taken else [("cancel", 1)])


# -- what cannot be ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "fact"), sorted(set(itertools.product(ClosureState, ClosureFact)) - set(CLOSURES.rows)), ids=str)
def test_a_closure_refuses_each_fact_that_is_not_in_the_table(state: ClosureState, fact: ClosureFact) -> None:
    with pytest.raises(ImpossibleFactError, match="closure queue: the fact"):
        CLOSURES.after(state, fact)


@pytest.mark.parametrize(("state", "fact"), sorted(set(itertools.product(WorkerState, WorkerFact)) - set(WORKERS.rows)), ids=str)
def test_a_worker_refuses_each_fact_that_is_not_in_the_table(state: WorkerState, fact: WorkerFact) -> None:
    with pytest.raises(ImpossibleFactError, match="workers of the closure queue: the fact"):
        WORKERS.after(state, fact)


def test_facts_that_cannot_be_raise_and_name_closure_state_and_fact(queue: ClosureQueue) -> None:
    (attempt,) = attempts(queue.schedule(3))
    with pytest.raises(ImpossibleFactError, match=r"'up' is impossible in the state 'busy' \(of worker:0\)"):
        queue.worker_up("worker:0")
    queue.schedule(4)
    for closure, state in ((3, "running"), (4, "queued"), (2, "ended")):
        with pytest.raises(ImpossibleFactError, match=rf"'scheduled' is impossible in the state '{state}' \(of {closure}\)"):
            queue.schedule(closure)
    with pytest.raises(ImpossibleFactError, match="'completed' is impossible in the state 'new'"):
        queue.completed(Attempt(9, "worker:0", ClosureState.NEW))
    assert kinds(queue.completed(attempt)) == [("resolve", 3), ("dispatch", 4)]


# -- whatever comes ----------------------------------------------------------------------------------------------------


class Recorded(Asynchronous):
    """Notes what the queue tells."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []

    def joined(self, worker: str) -> None:
        self.told.append(("joined", worker))

    def left(self, worker: str) -> None:
        self.told.append(("left", worker))

    def began(self, worker: str) -> None:
        self.told.append(("began", worker))

    def ended(self, worker: str, has_completed: bool) -> None:
        self.told.append(("ended", worker, str(has_completed)))


class Judge:
    """What a queue should do, written down once more, without tables."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.idle: list[str] = []
        self.busy: dict[str, tuple[int, int]] = {}  # by worker: closure, and which attempt of all
        self.dispatched = 0
        self.error: object = None
        self.expected: Kinds = []
        self.told: list[tuple[str, ...]] = []

    def go(self) -> None:
        while self.waiting and self.idle:
            worker, closure = self.idle.pop(0), self.waiting.pop(0)
            self.busy[worker] = closure, self.dispatched
            self.dispatched += 1
            self.expected.append(("dispatch", closure))
            self.told.append(("began", worker))

    def up(self, worker: str) -> None:
        if worker not in self.idle:
            self.idle.append(worker)
            self.told.append(("joined", worker))
            self.go()

    def put_back(self, closure: int) -> None:
        if self.error is None:
            self.waiting.insert(0, closure)
        self.expected.append(("retry" if self.error is None else "cancel", closure))

    def down(self, worker: str) -> None:
        if worker in self.idle or worker in self.busy:
            self.told.append(("left", worker))
        if worker in self.idle:
            self.idle.remove(worker)
        if worker in self.busy:
            self.put_back(self.busy.pop(worker)[0])
        self.go()

    def reply(self, kind: str, number: int) -> None:
        worker = next((name for name, (_, attempt) in self.busy.items() if attempt == number), None)
        if worker is None:
            return
        closure, _ = self.busy.pop(worker)
        if kind == "completed":
            self.expected.append(("resolve", closure))
        elif kind == "lost":
            self.put_back(closure)
            self.go()
        elif kind == "dropped":
            self.put_back(closure)
        else:
            self.expected += [("fail", closure), *(("cancel", other) for other in self.waiting)]
            self.waiting, self.error = [], self.error or kind
        self.idle.append(worker)
        self.told.append(("ended", worker, str(kind == "completed")))
        self.go()

    def give_up(self, closures: list[int]) -> None:
        self.expected += [("cancel", closure) for closure in self.waiting if closure in closures]
        self.waiting = [closure for closure in self.waiting if closure not in closures]


STATES_AFTER: dict[ClosureAction, set[ClosureState]] = {
    ClosureAction.DISPATCH: {ClosureState.RUNNING, ClosureState.LAST_TRY},
    ClosureAction.RETRY: {ClosureState.QUEUED},
    ClosureAction.RESOLVE: {ClosureState.ENDED},
    ClosureAction.FAIL: {ClosureState.ENDED},
    ClosureAction.CANCEL: {ClosureState.ENDED},
}
FACTS = ["schedule", "schedule", "schedule", "up", "up", "down", "completed", "completed", "raised", "lost", "dropped", "take", "given up"]


def follow(facts: list[tuple[str, int]]) -> None:
    """Tell a queue and the judge the same; the number says of which worker, or of which attempt that has not replied."""
    policy, judge, scheduled, ended = Recorded(), Judge(), 0, list[int]()
    queue, open_attempts = ClosureQueue(policy), list[tuple[int, Attempt]]()
    dispatched = 0
    for fact, number in [*facts, *(("up", worker) for worker in range(3)), *[("completed", 0)] * (2 * len(facts))]:
        worker, judge.expected, decisions = WORKER_NAMES[number % 3], [], list[ClosureDecision]()
        if fact == "schedule":
            judge.waiting.append(scheduled)
            judge.go()
            decisions = queue.schedule(scheduled)
            scheduled += 1
        elif fact == "up" and worker not in judge.busy:
            judge.up(worker)
            decisions = queue.worker_up(worker)
        elif fact == "down":
            judge.down(worker)
            decisions = queue.worker_down(worker)
        elif fact == "take":
            assert (queue.take_error() is None) == (judge.error is None)
            judge.error = None
        elif fact == "given up":
            unwanted = list(range(number % 2, scheduled, 2))
            judge.give_up(unwanted)
            decisions = queue.given_up(unwanted)
        elif fact in ("completed", "raised", "lost", "dropped") and open_attempts:
            which, attempt = open_attempts.pop(number % len(open_attempts))
            judge.reply(fact, which)
            replies: dict[str, Any] = {"completed": queue.completed, "lost": queue.timed_out, "dropped": queue.dropped}
            decisions = replies[fact](attempt) if fact in replies else queue.raised(attempt, ValueError(which))
        assert kinds(decisions) == judge.expected
        assert policy.told == judge.told
        assert (queue.pending, list(queue.idle)) == (len(judge.waiting) + len(judge.busy), judge.idle)
        for decision in decisions:
            assert decision.attempt is not None and decision.attempt.state in STATES_AFTER[decision.kind]
        for attempt in attempts(decisions):
            open_attempts.append((dispatched, attempt))
            dispatched += 1
        ended += [closure for kind, closure in kinds(decisions) if kind in ("resolve", "fail", "cancel")]
    assert sorted(ended) == list(range(scheduled))
    assert queue.pending == 0


@given(st.lists(st.tuples(st.sampled_from(FACTS), st.integers(0, 11)), max_size=80))
def test_every_closure_ends_exactly_once_whatever_happens(facts: list[tuple[str, int]]) -> None:
    follow(facts)


def test_every_wrong_row_of_the_tables_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(0)
    histories = [[(draw.choice(FACTS), draw.randrange(12)) for _ in range(40)] for _ in range(150)]
    for history in histories:
        follow(history)
    wrong = [("CLOSURES", *each) for each in broken_tables(CLOSURES, ClosureState, ClosureAction)]
    wrong += [("WORKERS", *each) for each in broken_tables(WORKERS, WorkerState, ())]
    survivors: list[str] = []
    for name, words, table in wrong:
        monkeypatch.setattr(queue_module, name, table)
        try:
            for history in histories:
                follow(history)
        except (AssertionError, IndexError, KeyError):
            continue
        survivors.append(words)
    assert survivors == []
    assert len(wrong) > 100


# -- policies ----------------------------------------------------------------------------------------------------------


def test_a_worker_that_may_not_begin_is_passed_over_until_it_may() -> None:
    class Turns(Asynchronous):
        turn = "worker:1"

        def may_begin(self, worker: str) -> bool:
            return worker == self.turn

        def ended(self, worker: str, has_completed: bool) -> None:
            self.turn = "worker:0" if worker == "worker:1" else "worker:1"

    queue = ClosureQueue(Turns())
    for worker in ("worker:0", "worker:1"):
        queue.worker_up(worker)
    (first,) = attempts(queue.schedule(0))
    assert first.worker == "worker:1"
    assert queue.schedule(1) == []
    assert [(each.kind, each.worker) for each in queue.completed(first)] == [("resolve", "worker:1"), ("dispatch", "worker:0")]


def test_the_pictures_of_the_tables_are_those_of_the_documentation() -> None:
    text = (Path(__file__).resolve().parents[2] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for table in (CLOSURES, WORKERS):
        assert f"```mermaid\n{table.diagram()}\n```\n" in text, table.diagram()
