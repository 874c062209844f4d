"""When the commands of a run are due: at their second, or between the two events between which they were done before."""

from __future__ import annotations

import pytest

from simdist.session.agenda import SLICE_EVENTS, Agenda
from simdist.session.commands import Command
from simdist.simulation.kernel import Clock

FAULT = {"kind": "crash", "task": "worker:0"}


def clock_with_an_event_at(*seconds: float) -> Clock:
    clock = Clock()
    for second in seconds:
        clock.after(second, lambda _: None)
    return clock


def test_a_command_is_due_when_the_next_event_comes_after_its_second() -> None:
    agenda = Agenda(clock_with_an_event_at(2.0), [command := Command(1.0, FAULT)])
    assert agenda.due() is command
    assert agenda.second_of(command) == 1.0


def test_a_command_is_not_due_while_events_come_before_its_second() -> None:
    assert Agenda(clock_with_an_event_at(0.5, 2.0), [Command(1.0, FAULT)]).due() is None


def test_without_another_event_a_command_is_due() -> None:
    agenda = Agenda(Clock(), [command := Command(1.0, FAULT)])
    assert (agenda.due(), agenda.second_of(command), agenda.next_s()) == (command, 1.0, 0.0)


def test_a_command_that_was_done_after_so_many_events_is_due_after_as_many() -> None:
    agenda = Agenda(clock_with_an_event_at(0.5), [command := Command(1.0, FAULT, after_events=0)])
    assert agenda.due() is command
    assert agenda.second_of(command) == 0.5  # not beyond the next event


def test_without_commands_nothing_is_due() -> None:
    agenda = Agenda(Clock(), [])
    assert agenda.due() is None
    assert agenda.until_a_command(10, 3.0) == (10, 3.0)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (Command(1.0, FAULT), (SLICE_EVENTS, 1.0)),
        (Command(9.0, FAULT), (SLICE_EVENTS, 3.0)),
        (Command(1.0, FAULT, after_events=7), (7, 1.0)),
        (Command(1.0, FAULT, after_events=0), (1, 1.0)),
    ],
)
def test_events_go_on_until_the_next_command(command: Command, found: tuple[int, float]) -> None:
    assert Agenda(Clock(), [command]).until_a_command(10**9, 3.0) == found


def test_after_an_unforeseen_command_those_to_come_go_by_their_seconds() -> None:
    agenda = Agenda(clock_with_an_event_at(0.5), [Command(1.0, FAULT, after_events=0)])
    agenda.go_by_time()
    assert agenda.due() is None


@pytest.mark.parametrize(("now_s", "found"), [(0.25, 0.25), (1.5, 1.0), (-1.0, 0.0)])
def test_time_stands_no_later_than_a_command_that_is_due(now_s: float, found: float) -> None:
    clock = clock_with_an_event_at(2.0)
    Agenda(clock, [Command(1.0, FAULT)]).stand_at(now_s)
    assert clock.now == found
