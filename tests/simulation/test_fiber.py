"""A fiber that rests is called again, and keeps nothing alive meanwhile."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from simdist.errors import DeadlineExceededError
from simdist.simulation.fiber import Gate, Rest
from simdist.simulation.kernel import Clock


class Doorman:
    """Opens a door each time that somebody rings, and rests in between."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.bell = Gate(clock)
        self.opened: list[float] = []
        self.fiber = clock.spawn("doorman", self.work)

    def work(self) -> Rest:
        if self.bell.is_open:
            self.clock.sleep(1.0)
            self.opened.append(self.clock.now)
            self.bell = Gate(self.clock)
        return Rest(self.bell, "the bell")

    def ring(self) -> None:
        self.clock.after(0.0, lambda _: self.bell.open())


def sleep(clock: Clock, seconds: float) -> None:
    clock.join(clock.spawn("driver", lambda: clock.sleep(seconds)))


def test_a_fiber_that_rests_is_called_again_each_time_its_gate_opens() -> None:
    clock = Clock()
    doorman = Doorman(clock)
    for _ in range(3):
        sleep(clock, 2.0)
        doorman.ring()
    sleep(clock, 2.0)
    assert doorman.opened == [3.0, 5.0, 7.0]
    assert not doorman.fiber.ended


def test_an_error_names_who_rests() -> None:
    clock = Clock()
    Doorman(clock)
    with pytest.raises(DeadlineExceededError, match="doorman waits for the bell"):
        clock.wait(clock.gate(), "the moon")


def test_a_fiber_that_rests_can_be_killed_and_rings_no_more() -> None:
    clock = Clock()
    doorman = Doorman(clock)
    sleep(clock, 1.0)
    clock.kill(doorman.fiber)
    doorman.ring()
    sleep(clock, 2.0)
    assert doorman.fiber.ended and doorman.fiber.killed and doorman.opened == []
    assert doorman.fiber not in clock.fibers


def test_a_fiber_that_is_killed_while_it_goes_to_rest_does_not_rest() -> None:
    clock = Clock()
    found: list[Any] = []

    def work() -> Rest:
        found[0].dead = True  # as somebody else's kill leaves it, whose blow is still to come
        return Rest(Gate(clock), "nothing")

    found.append(clock.spawn("worker:0", work))
    sleep(clock, 1.0)
    assert found[0].ended and found[0].killed and found[0] not in clock.fibers


def test_a_clock_whose_fibers_rest_is_collected() -> None:
    def made() -> weakref.ref[Doorman]:
        clock = Clock()
        doorman = Doorman(clock)
        sleep(clock, 1.0)
        doorman.ring()
        sleep(clock, 2.0)
        assert doorman.opened == [2.0]
        return weakref.ref(doorman)

    found = made()
    gc.collect()
    assert found() is None
