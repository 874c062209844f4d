"""Fibers: blocking, dying, and the errors of waits that nothing can end."""

from __future__ import annotations

import signal
import threading

import pytest

from simdist.errors import DeadlineExceededError, FailedPreconditionError
from simdist.simulation.kernel import Clock, TaskKilled, current_fiber


def test_fibers_interleave_in_order_of_time() -> None:
    clock, order = Clock(), list[tuple[str, float]]()

    def walk(name: str, step_s: float) -> None:
        for _ in range(3):
            clock.sleep(step_s)
            order.append((name, clock.now))

    fibers = [clock.spawn("a", lambda: walk("a", 2.0)), clock.spawn("b", lambda: walk("b", 3.0))]
    for fiber in fibers:
        clock.join(fiber)
    assert order == [("a", 2.0), ("b", 3.0), ("a", 4.0), ("b", 6.0), ("a", 6.0), ("b", 9.0)]


def test_wait_that_nothing_can_end_names_who_waits_for_what() -> None:
    clock = Clock()
    clock.spawn("worker:0", lambda: clock.wait(clock.gate(), "a closure"))
    with pytest.raises(DeadlineExceededError, match=r"the moon.*worker:0 waits for a closure"):
        clock.wait(clock.gate(), "the moon")


def test_daemons_alone_do_not_keep_a_wait_alive() -> None:
    clock, beats = Clock(), list[float]()

    def beat() -> None:
        beats.append(clock.now)
        clock.after_daemon(1.0, beat)

    clock.after_daemon(1.0, beat)
    clock.sleep(3.5)
    assert beats == [1.0, 2.0, 3.0]
    with pytest.raises(DeadlineExceededError):
        clock.wait(clock.gate(), "nothing")


def test_killed_fiber_that_swallows_exceptions_and_saves_at_the_end_saves_nothing() -> None:
    clock, saved = Clock(), list[str]()

    def stubborn() -> None:
        try:
            while True:
                try:
                    clock.sleep(1.0)
                except Exception:
                    saved.append("swallowed")
        finally:
            clock.sleep(1.0)
            saved.append("saved")

    fiber = clock.spawn("worker:0", stubborn)
    clock.after(2.5, lambda _: clock.kill(fiber))
    with pytest.raises(TaskKilled):
        clock.join(fiber)
    clock.sleep(10.0)
    assert saved == []


def test_fiber_that_swallows_even_its_death_is_left_behind() -> None:
    clock = Clock()

    def immortal() -> None:
        while True:
            try:
                clock.sleep(1.0)
            except BaseException:
                continue

    fiber = clock.spawn("worker:0", immortal)
    clock.after(1.5, lambda _: clock.kill(fiber))
    clock.sleep(5.0)
    assert fiber.ended


def test_kill_before_the_first_line_runs_nothing() -> None:
    clock, ran = Clock(), list[bool]()
    fiber = clock.spawn("worker:0", lambda: ran.append(True))
    clock.kill(fiber)
    clock.sleep(1.0)
    assert ran == []


def test_wait_from_another_thread_is_refused() -> None:
    clock, errors = Clock(), list[BaseException]()

    def elsewhere() -> None:
        try:
            clock.sleep(1.0)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert isinstance(errors[0], FailedPreconditionError)


def test_wait_inside_a_callback_is_refused() -> None:
    clock = Clock()
    clock.after(1.0, lambda _: clock.sleep(1.0))
    with pytest.raises(FailedPreconditionError, match="inside the event loop"):
        clock.sleep(2.0)


def test_interrupt_stops_the_driver_and_not_the_task_that_runs() -> None:
    clock, log = Clock(), list[float]()

    def work() -> None:
        for _ in range(5):
            clock.sleep(1.0)
            if clock.now == 2.0:
                signal.raise_signal(signal.SIGINT)
            log.append(clock.now)

    fiber = clock.spawn("worker:0", work)
    with pytest.raises(KeyboardInterrupt):
        clock.sleep(10.0)
    assert log == [1.0, 2.0]
    clock.join(fiber)
    assert log == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_endless_events_at_one_moment_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simdist.simulation.kernel.LIVELOCK_EVENTS", 1000)
    clock = Clock()

    def again(_: object) -> None:
        clock.after(0.0, again)

    clock.after(0.0, again)
    with pytest.raises(DeadlineExceededError, match="without virtual time moving on"):
        clock.sleep(1.0)


def test_driver_is_no_fiber() -> None:
    clock = Clock()
    fiber = clock.spawn("worker:0", current_fiber)
    assert clock.join(fiber) is fiber
    assert current_fiber() is None
