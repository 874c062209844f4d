"""What a server knows of the updates that it has applied."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from simdist.runtime.simulated import remembered
from simdist.runtime.simulated.calls import ServerCall
from simdist.runtime.simulated.remembered import Remembered


def part(position: int = 0) -> ServerCall:
    """A part of a push, by its place."""
    server: Any = None
    return ServerCall(server, (), None, position)


def push(identity: tuple[int, int, int, int] | None = None, of: Any = None) -> Any:
    """A push; one that repeats another has the same marks."""
    return SimpleNamespace(identity=identity, applied={} if of is None else of.applied)


def test_each_part_of_a_call_counts_by_itself() -> None:
    known, call, first, second = Remembered(), push(), part(0), part(1)
    known.add(call, first)
    assert [known.has(call, one) for one in (first, second)] == [True, False]
    assert not known.has(push(), first)


def test_a_call_that_repeats_another_is_known() -> None:
    known, call, only = Remembered(), push(), part()
    known.add(call, only)
    assert known.has(push(of=call), only)


def test_servers_do_not_know_what_others_have_applied() -> None:
    one, other, call, only = Remembered(), Remembered(), push(), part()
    one.add(call, only)
    assert not other.has(call, only)


def test_an_update_of_a_closure_is_known_from_whichever_worker_it_comes() -> None:
    known = Remembered()
    known.add(push((0, 7, 1, 1)), part(0))
    assert known.has(push((0, 7, 1, 1)), part(0))
    assert not known.has(push((0, 7, 1, 1)), part(1)) and not known.has(push((0, 7, 2, 1)), part(0))


@pytest.mark.parametrize("identity", [None, (0, 7, 1, 1)])
def test_what_was_taken_back_or_forgotten_is_new(identity: tuple[int, int, int, int] | None) -> None:
    known, call, only = Remembered(), push(identity), part()
    known.add(call, only)
    known.take_back(call, only)
    assert not known.has(call, only)
    known.add(call, only)
    known.clear()
    assert not known.has(call, only)
    known.add(call, only)
    assert known.has(call, only)


def test_closures_that_are_not_run_again_are_known_by_their_number_once_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MANY", 4)
    known = Remembered()
    for closure in range(1, 6):
        known.add(push((0, closure, 1, 1)), part(), oldest=closure - 1)
    assert len(known.snapshot()[2]) == 2
    assert [known.has(push((0, closure, 1, 1)), part()) for closure in range(1, 7)] == [True, True, True, True, True, False]
    assert not known.has(push((1, 1, 1, 1)), part()), "of another coordinator"


def test_closures_that_may_be_run_again_are_never_forgotten() -> None:
    known = Remembered()
    for closure in range(10_000):
        known.add(push((0, closure, 1, 1)), part(), oldest=5)
    assert all(known.has(push((0, closure, 1, 1)), part()) for closure in range(5, 10_000))


@pytest.mark.parametrize("identity", [None, (0, 7, 1, 1)])
def test_a_snapshot_knows_what_was_applied_before_it(identity: tuple[int, int, int, int] | None) -> None:
    known, before, only = Remembered(), push(identity), part()
    known.add(before, only)
    snapshot = known.snapshot()
    after = push(identity and (0, 8, 1, 1))
    known.add(after, only)
    known.clear()
    known.restore(snapshot)
    assert known.has(before, only) and not known.has(after, only)
    again = push(identity and (0, 9, 1, 1))
    known.add(again, only)
    later = known.snapshot()
    known.clear()
    assert not any(known.has(one, only) for one in (before, after, again))
    known.restore(later)
    assert [known.has(one, only) for one in (before, after, again)] == [True, False, True]


def test_what_is_over_of_one_coordinator_is_not_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MANY", 4)
    known = Remembered()
    known.add(push((0, 1, 1, 1)), part())
    for closure in range(100, 106):
        known.add(push((1, closure, 1, 1)), part(), oldest=105)
    assert known.has(push((0, 1, 1, 1)), part()) and not known.has(push((0, 2, 1, 1)), part())
    assert known.has(push((1, 100, 1, 1)), part()) and not known.has(push((1, 106, 1, 1)), part())
