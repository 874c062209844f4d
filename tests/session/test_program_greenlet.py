"""A program in a greenlet of its own: what it changes in the process is there while it runs, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from simdist import debugging
from simdist.process_state import TaskContext, TaskLocal, active
from simdist.session import program_greenlet
from simdist.session.program_greenlet import Ended, ProgramGreenlet

number: TaskLocal[int] = TaskLocal(lambda: 0)


def playing(play: Callable[[ProgramGreenlet], None]) -> ProgramGreenlet:
    found: list[ProgramGreenlet] = []
    found.append(ProgramGreenlet(lambda: play(found[0]), TaskContext()))
    return found[0]


def test_a_program_goes_on_where_it_gave_way() -> None:
    seen: list[str] = []

    def play(program: ProgramGreenlet) -> None:
        seen.append("first")
        program.give_way()
        seen.append("second")

    program = playing(play)
    assert not program.is_alive
    program.go_on()
    assert (seen, program.is_alive) == (["first"], True)
    program.go_on()
    assert (seen, program.is_alive) == (["first", "second"], False)


def test_a_program_prints_to_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    def play(program: ProgramGreenlet) -> None:
        print("from the program")
        program.give_way()
        print("again")

    program, stream = playing(play), sys.stdout
    program.go_on()
    print("from its caller")
    program.go_on()
    assert sys.stdout is stream
    assert (program.output, program.last_output(6)) == ("from the program\nagain\n", "again\n")
    assert capsys.readouterr().out == "from its caller\n"


def test_state_of_the_process_is_kept_apart() -> None:
    seen: list[int] = []

    def play(program: ProgramGreenlet) -> None:
        number.set(7)
        program.give_way()
        seen.append(number.get())

    program, context = playing(play), active.context
    program.go_on()
    assert (number.get(), active.context is context) == (0, True)
    program.go_on()
    assert seen == [7]


def test_the_switch_of_debug_is_that_of_the_program_while_it_runs() -> None:
    seen: list[bool | None] = []

    def play(program: ProgramGreenlet) -> None:
        debugging.turn(True)
        program.give_way()
        seen.append(debugging.position())

    program, outer = playing(play), debugging.position()
    program.go_on()
    assert debugging.position() is outer
    program.go_on()
    assert (seen, debugging.position()) == ([True], outer)


def test_a_program_that_is_ended_can_clean_up() -> None:
    seen: list[str] = []

    def play(program: ProgramGreenlet) -> None:
        try:
            program.give_way()
        except Ended:
            seen.append("ended")

    program = playing(play)
    program.go_on()
    program.end()
    assert (seen, program.is_alive) == (["ended"], False)


def test_a_program_that_swallows_its_end_is_left_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_greenlet, "ENDS_BEFORE_LEFT", 3)
    swallowed: list[int] = []

    def play(program: ProgramGreenlet) -> None:
        while True:
            try:
                program.give_up()
            except Ended:
                swallowed.append(1)

    program = playing(play)
    program.go_on()
    assert (len(swallowed), program.is_alive) == (3, True)
