"""The closure queue: transition by transition, and whatever order the facts come in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdist.coordinator.queue import ClosureQueue, Decision

WORKERS = ["worker:0", "worker:1", "worker:2"]


def kinds(decisions: list[Decision]) -> list[tuple[str, int]]:
    return [(decision.kind, decision.closure) for decision in decisions]


@pytest.fixture
def queue() -> ClosureQueue:
    queue = ClosureQueue()
    queue.worker_up("worker:0")
    return queue


def test_scheduled_closure_goes_to_an_idle_worker(queue: ClosureQueue) -> None:
    assert queue.schedule(0) == [Decision("dispatch", 0, "worker:0")]
    assert queue.schedule(1) == []
    assert queue.pending == 2


def test_lost_closure_runs_again_before_the_queued_ones(queue: ClosureQueue) -> None:
    for closure in range(3):
        queue.schedule(closure)
    assert kinds(queue.worker_down("worker:0")) == [("retry", 0)]
    assert kinds(queue.worker_up("worker:1")) == [("dispatch", 0)]


def test_late_reply_of_a_lost_worker_is_ignored(queue: ClosureQueue) -> None:
    queue.schedule(0)
    queue.worker_down("worker:0")
    queue.worker_up("worker:1")
    assert queue.completed("worker:0", 0) == []
    assert kinds(queue.completed("worker:1", 0)) == [("resolve", 0)]


def test_error_cancels_what_is_queued_and_is_given_once(queue: ClosureQueue) -> None:
    for closure in range(3):
        queue.schedule(closure)
    error = ValueError("x")
    assert kinds(queue.raised("worker:0", 0, error)) == [("fail", 0), ("cancel", 1), ("cancel", 2)]
    assert queue.take_error() is error
    assert queue.take_error() is None
    assert kinds(queue.schedule(3)) == [("dispatch", 3)]


def test_only_the_first_of_two_errors_is_kept(queue: ClosureQueue) -> None:
    queue.worker_up("worker:1")
    queue.schedule(0)
    queue.schedule(1)
    first = ValueError("first")
    queue.raised("worker:1", 1, first)
    queue.raised("worker:0", 0, ValueError("second"))
    assert queue.take_error() is first


def test_worker_that_dies_after_an_error_takes_its_closure_with_it(queue: ClosureQueue) -> None:
    queue.worker_up("worker:1")
    queue.schedule(0)
    queue.schedule(1)
    queue.raised("worker:0", 0, ValueError("x"))
    assert kinds(queue.worker_down("worker:1")) == [("cancel", 1)]


@given(st.lists(st.tuples(st.sampled_from(["schedule", "up", "down", "reply", "raise", "take"]), st.sampled_from(WORKERS)), max_size=80))
def test_every_closure_ends_exactly_once_whatever_happens(facts: list[tuple[str, str]]) -> None:
    queue, scheduled, ended, running = ClosureQueue(), 0, dict[int, str](), dict[str, int]()

    def note(decisions: list[Decision]) -> None:
        for decision in decisions:
            if decision.kind == "dispatch":
                assert decision.worker not in running
                running[decision.worker] = decision.closure
            elif decision.kind in ("resolve", "fail", "cancel"):
                assert decision.closure not in ended
                ended[decision.closure] = decision.kind

    for fact, worker in facts:
        if fact == "schedule":
            scheduled += 1
            note(queue.schedule(scheduled - 1))
        elif fact == "up":
            note(queue.worker_up(worker))
        elif fact == "down":
            running.pop(worker, None)
            note(queue.worker_down(worker))
        elif fact in ("reply", "raise") and worker in running:
            closure = running.pop(worker)
            note(queue.completed(worker, closure) if fact == "reply" else queue.raised(worker, closure, ValueError(closure)))
        elif fact == "take":
            queue.take_error()
    for worker in WORKERS:
        note(queue.worker_up(worker))
    while running:
        worker, closure = running.popitem()
        note(queue.completed(worker, closure))
    assert sorted(ended) == list(range(scheduled))
    assert queue.pending == 0
