"""Fibers: blocking, dying, and the errors of waits that nothing can end."""

from __future__ import annotations

import contextlib
import heapq
import math
import signal
import threading
from typing import Any

import pytest

from simdist.errors import DeadlineExceededError, FailedPreconditionError, InvalidArgumentError
from simdist.simulation.kernel import Clock, Fiber, TaskKilled, current_fiber


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


def test_sleeps_of_a_daemon_fiber_do_not_keep_a_wait_alive() -> None:
    clock, beats = Clock(), list[float]()

    def beat() -> None:
        while True:
            clock.sleep(1.0)
            beats.append(clock.now)

    fiber = clock.spawn("evaluator:0", beat)
    fiber.is_daemon = True
    clock.sleep(3.5)
    assert beats == [1.0, 2.0, 3.0]
    with pytest.raises(DeadlineExceededError, match="evaluator:0 waits for the end of a sleep"):
        clock.wait(clock.gate(), "nothing")
    clock.kill(fiber)
    clock.sleep(1.0)
    assert (beats, clock.daemons) == ([1.0, 2.0, 3.0], 0)


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
    with pytest.warns(RuntimeWarning, match=r"was left where it stands \(.*test_kernel.py:\d+, in immortal\)"):
        clock.sleep(5.0)
    assert fiber.ended


def test_kill_before_the_first_line_runs_nothing() -> None:
    clock, ran = Clock(), list[bool]()
    fiber = clock.spawn("worker:0", lambda: ran.append(True))
    clock.kill(fiber)
    clock.sleep(1.0)
    assert ran == []


def test_a_fiber_that_another_one_kills_before_its_first_line_runs_nothing() -> None:
    clock, ran = Clock(), list[bool]()

    def kill_a_new_one() -> Fiber:
        fiber = clock.spawn("worker:1", lambda: ran.append(True))
        clock.kill(fiber)
        return fiber

    killed = clock.join(clock.spawn("worker:0", kill_a_new_one))
    with pytest.raises(TaskKilled, match="worker:1"):
        clock.join(killed)
    assert ran == [] and clock.fibers == []


def test_a_fiber_that_is_held_is_killed_at_once() -> None:
    clock, ended_s = Clock(), list[float]()

    def work() -> None:
        try:
            clock.sleep(3.0)
        finally:
            ended_s.append(clock.now)

    fiber = clock.spawn("worker:0", work)
    clock.sleep(1.0)
    fiber.held = []
    clock.kill(fiber)
    assert ended_s == [1.0] and fiber.ended and fiber.held == []


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
    monkeypatch.setattr("simdist.simulation.loop.LIVELOCK_EVENTS", 1000)
    clock = Clock()

    def again(_: object) -> None:
        clock.after(0.0, again)

    clock.after(0.0, again)
    with pytest.raises(DeadlineExceededError, match="without virtual time moving on"):
        clock.sleep(1.0)


def test_many_waits_of_the_driver_at_one_moment_are_no_endless_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simdist.simulation.loop.LIVELOCK_EVENTS", 10)
    clock = Clock()
    assert [clock.join(clock.spawn("worker:0", lambda number=number: number)) for number in range(20)] == list(range(20))


def test_driver_is_no_fiber() -> None:
    clock = Clock()
    fiber = clock.spawn("worker:0", current_fiber)
    assert clock.join(fiber) is fiber
    assert current_fiber() is None


# -- time that is none ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [-3.0, math.nan, math.inf, -math.inf, 1e300])
def test_time_that_is_none_enters_nowhere(seconds: float) -> None:
    clock = Clock()
    clock.sleep(5.0)
    with pytest.raises(InvalidArgumentError, match="no time to wait"):
        clock.sleep(seconds)
    with pytest.raises(InvalidArgumentError, match="no time to wait"):
        clock.after(seconds, print)
    with pytest.raises(InvalidArgumentError, match="no time to wait"):
        clock.after_daemon(seconds, print)
    fiber = clock.spawn("worker:0", lambda: clock.sleep(seconds))
    with pytest.raises(InvalidArgumentError, match="no time to wait"):
        clock.join(fiber)
    assert (clock.now, clock.daemons) == (5.0, 0)
    clock.sleep(1.0)
    assert clock.now == 6.0


@pytest.mark.parametrize("due_s", [1e300, math.inf, 1.0])
def test_an_event_beyond_the_end_or_in_the_past_is_an_error_and_stays(due_s: float) -> None:
    clock = Clock()
    clock.sleep(2.0)
    heapq.heappush(clock.queue, (due_s, 1, -1, print, None))  # as links do, which work out their own ends
    for _ in range(2):
        with pytest.raises(DeadlineExceededError, match="due at"):
            clock.wait(clock.gate())
        assert clock.now == 2.0


# -- how a fiber ends -------------------------------------------------------------------------------------------------


def raising(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda: 1, type(None)),
        (lambda: raising(ValueError()), ValueError),
        (lambda: raising(SystemExit(3)), SystemExit),
        (lambda: raising(KeyboardInterrupt()), KeyboardInterrupt),
        (lambda: raising(GeneratorExit()), GeneratorExit),
    ],
)
def test_however_a_fiber_ends_whoever_waits_learns_how(function: Any, error: type) -> None:
    clock = Clock()
    fiber = clock.spawn("worker:0", function)
    clock.wait(fiber.finished)
    assert isinstance(fiber.error, error)
    assert fiber.ended and not fiber.killed and not clock.fibers


@pytest.mark.parametrize("when_s", [0.0, 0.5])
def test_a_killed_fiber_has_ended_with_its_death(when_s: float) -> None:
    clock = Clock()
    fibers: list[Fiber] = []
    clock.after(when_s, lambda _: clock.kill(fibers[0]))  # at 0.0 before its first line
    fibers.append(clock.spawn("worker:0", lambda: clock.sleep(1.0)))
    clock.wait(fibers[0].finished)
    assert isinstance(fibers[0].error, TaskKilled)
    assert fibers[0].ended and fibers[0].killed and not clock.fibers


def test_a_fiber_that_swallows_its_death_for_ever_has_ended_with_it() -> None:
    clock = Clock()

    def stubborn() -> None:
        while True:
            with contextlib.suppress(BaseException):
                clock.sleep(1.0)

    fiber = clock.spawn("worker:0", stubborn)
    clock.after(0.5, lambda _: clock.kill(fiber))
    with pytest.warns(RuntimeWarning, match="worker:0 went on after its task had died"):
        clock.wait(fiber.finished)
    assert isinstance(fiber.error, TaskKilled)
    assert fiber.killed and not clock.fibers


# -- who may call -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["sleep", "wait"])
def test_a_thread_that_a_task_has_started_is_refused(call: str) -> None:
    clock, caught = Clock(), list[BaseException]()

    def body() -> None:
        def run() -> None:
            try:
                clock.sleep(1.0) if call == "sleep" else clock.wait(clock.gate())
            except BaseException as error:
                caught.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        clock.sleep(2.0)

    clock.join(clock.spawn("worker:0", body))
    assert [type(error) for error in caught] == [FailedPreconditionError]
    assert clock.now == 2.0


def test_nobody_waits_on_a_closed_clock() -> None:
    clock = Clock()
    clock.close()
    with pytest.raises(FailedPreconditionError, match="closed"):
        clock.sleep(1.0)


def test_who_is_asked_may_look_and_not_wait() -> None:
    clock = Clock()

    def body() -> str:
        with clock.asking(), pytest.raises(FailedPreconditionError, match="cannot wait"):
            clock.sleep(1.0)
        clock.sleep(1.0)
        return "went on"

    assert clock.join(clock.spawn("worker:0", body)) == "went on"
    with clock.asking(), pytest.raises(FailedPreconditionError, match="cannot wait"):
        clock.sleep(1.0)
    clock.sleep(1.0)
    assert clock.now == 2.0


@pytest.mark.parametrize("fails", [False, True])
def test_an_event_of_simpy_can_be_waited_for_by_a_fiber_and_by_the_driver(fails: bool) -> None:
    clock = Clock()
    event = clock.env.event()

    def trigger(_: None) -> None:
        event.fail(ValueError("no")) if fails else event.succeed("yes")

    def body() -> str:
        try:
            return clock.wait(event)
        except ValueError as error:
            return str(error)

    clock.after(2.0, trigger)
    fiber = clock.spawn("worker:0", body)
    assert clock.join(fiber) == ("no" if fails else "yes")
    with pytest.raises(ValueError, match="no") if fails else contextlib.nullcontext():
        assert clock.wait(event) == "yes"
    assert clock.now == clock.env.now == 2.0
