"""The loop in slices: it stops where it was told to, and a run in slices is the run in one go."""

from __future__ import annotations

import pytest

from simdist.simulation.kernel import Clock
from simdist.simulation.loop import LAST_S, run_events


def clock_with(seconds: list[float]) -> tuple[Clock, list[float]]:
    clock, happened = Clock(), list[float]()
    for second in seconds:
        clock.after(second, lambda _: happened.append(clock.now))
    return clock, happened


def test_loop_stops_before_an_event_that_comes_later_and_does_those_of_the_second() -> None:
    clock, happened = clock_with([1.0, 2.0, 2.0, 3.0])
    gate = clock.gate()
    run_events(clock, gate, "", [], 100, until_s=2.0)
    assert happened == [1.0, 2.0, 2.0] and clock.events == 3 and clock.now == 2.0
    run_events(clock, gate, "", [], 100, until_s=2.5)
    assert clock.events == 3 and len(clock.queue) == 1


@pytest.mark.parametrize("slices", [[1, 1, 1, 1, 1], [2, 3], [5]])
def test_slices_count_their_events(slices: list[int]) -> None:
    clock, happened = clock_with([1.0, 1.0, 2.0, 3.0, 4.0])
    for size in slices:
        before = clock.events
        run_events(clock, clock.gate(), "", [], size, LAST_S)
        assert clock.events == before + size
    assert happened == [1.0, 1.0, 2.0, 3.0, 4.0]


def test_loop_stops_when_the_gate_opens_and_raises_what_stands_in_stops() -> None:
    clock, _ = clock_with([3.0])
    gate = clock.gate()
    clock.after(1.0, gate.open)
    run_events(clock, gate, "", [], 100)
    assert clock.now == 1.0 and clock.events == 1
    with pytest.raises(KeyboardInterrupt):
        run_events(clock, clock.gate(), "", [KeyboardInterrupt()], 100)
    assert clock.now == 3.0


def test_a_clock_stands_at_a_later_second_only_before_what_is_to_come() -> None:
    clock, happened = clock_with([2.0])
    clock.stand_at(1.5)
    assert clock.now == 1.5
    clock.sleep(1.0)
    assert happened == [2.0] and clock.now == 2.5
    with pytest.raises(AssertionError):
        clock.stand_at(1.0)
