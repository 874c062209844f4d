"""The closure queue with each of its policies, whatever the facts: a rule-based machine, and random histories by the thousand.

`python -m pytest -m slow tests/coordinator/test_histories.py` follows 100,000 histories, which takes
half a minute: some 3,500 of them a second on one core. The sample takes a second.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from simdist.coordinator.bounded import BoundedStaleness
from simdist.coordinator.closure_states import CLOSURES, ClosureAction, ClosureFact, ClosureState
from simdist.coordinator.queue import ClosureQueue
from simdist.transitions import Move, TransitionTable
from tests.coordinator.histories import POLICIES, Followed, History, follow, random_history, shortest

SAMPLE, ALL = 600, 16_700  # for each of the six policies
LENGTH = 40


class QueueMachine(RuleBasedStateMachine):
    """Facts for a queue, as rules; hypothesis finds the shortest history that fails."""

    @initialize(policy=st.sampled_from(sorted(POLICIES)))
    def begin(self, policy: str) -> None:
        self.followed = Followed(POLICIES[policy]())

    @rule()
    def schedule(self) -> None:
        self.followed.fact("schedule", 0)

    @rule(number=st.integers(0, 5))
    def up(self, number: int) -> None:
        self.followed.fact("up", number)

    @rule(number=st.integers(0, 5))
    def down(self, number: int) -> None:
        self.followed.fact("down", number)

    @rule()
    def join(self) -> None:
        self.followed.fact("join", 0)

    @precondition(lambda self: self.followed.open)
    @rule(fact=st.sampled_from(["completed", "completed", "raised", "lost"]), number=st.integers(0, 7))
    def reply(self, fact: str, number: int) -> None:
        self.followed.fact(fact, number)

    @rule()
    def take(self) -> None:
        self.followed.fact("take", 0)

    def teardown(self) -> None:
        if hasattr(self, "followed"):
            self.followed.finish()


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def follow_many(policy: str, count: int) -> None:
    """Follow random histories; the first that fails is made short, and shown."""
    dice = Random(f"{policy}, {count}")
    for _ in range(count):
        history = random_history(dice, LENGTH)
        if fails(policy, history):
            raise AssertionError(f"follow({policy!r}, {list(shortest(history, lambda part: fails(policy, part)))!r})")


def fails(policy: str, history: History) -> bool:
    try:
        follow(policy, history)
    except (AssertionError, KeyError, IndexError, ValueError):
        return True
    return False


@pytest.mark.parametrize("policy", POLICIES)
def test_random_histories_end_well(policy: str) -> None:
    follow_many(policy, SAMPLE)


@pytest.mark.exhaustive
@pytest.mark.parametrize("policy", POLICIES)
def test_a_hundred_thousand_random_histories_end_well(policy: str) -> None:
    follow_many(policy, ALL)


# -- the tests themselves -----------------------------------------------------------------------------------------------


def forgets_rank(self: BoundedStaleness, worker: str) -> None:
    self.clocks[worker] = 0  # and not the open round


def puts_back_last(table: Any) -> Any:
    rows = {key: row for key, row in table.rows.items() if key != (ClosureState.RUNNING, ClosureFact.MESSAGE_LOST)}
    rows[ClosureState.RUNNING, ClosureFact.MESSAGE_LOST] = Move(ClosureState.ENDED, (ClosureAction.RETRY,))
    return TransitionTable("broken", ClosureState.NEW, rows)


def test_a_policy_that_forgets_where_a_worker_joins_is_found_and_the_history_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedStaleness, "joined", forgets_rank)
    with pytest.raises(AssertionError, match=r"follow\('sync', \[") as caught:
        follow_many("sync", SAMPLE)
    assert str(caught.value).count("('") <= 8
    monkeypatch.undo()
    follow_many("sync", 20)


def test_a_queue_that_loses_a_closure_is_found_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simdist.coordinator.queue.CLOSURES", puts_back_last(CLOSURES))
    with pytest.raises(
        AssertionError, match=r"follow\('asynchronous', \[\('(schedule|up)', 0\), \('(schedule|up)', 0\), \('lost', 0\)\]\)"
    ):
        follow_many("asynchronous", SAMPLE)
    options = settings(max_examples=200, deadline=None, database=None, print_blob=False, report_multiple_bugs=False)
    with pytest.raises((AssertionError, IndexError)):
        run_state_machine_as_test(QueueMachine, settings=options)


def test_an_idle_worker_that_is_passed_over_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    dispatch = ClosureQueue._dispatch

    def lazy(self: ClosureQueue) -> Any:
        return dispatch(self) if len(self.queue) > 1 or not self.running else []

    monkeypatch.setattr(ClosureQueue, "_dispatch", lazy)
    with pytest.raises(AssertionError, match="follow"):
        follow_many("asynchronous", SAMPLE)
