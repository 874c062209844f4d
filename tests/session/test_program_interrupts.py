"""Ctrl-C around a program that is run from time to time: nothing is left half done, and it is nobody's but the one's whose code runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from session_programs import digest_without_faults, session_of
from simdist.interrupts import delayed_interrupts
from simdist.process_state import TaskContext
from simdist.session.program_greenlet import ProgramGreenlet
from simdist.session.run import ProgramRun
from simdist.simulated_process import SimulatedProcess


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("way", ["enter", "leave"])
@pytest.mark.parametrize("is_after", [False, True])
def test_ctrl_c_while_one_state_takes_the_place_of_the_other_is_raised_behind_it(
    way: str, is_after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, signals = getattr(SimulatedProcess, way), list[signal.Signals]()

    def interrupted(process: SimulatedProcess) -> None:
        if is_after:
            change(process)
        if signals:
            signal.raise_signal(signals.pop())
        if not is_after:
            change(process)

    monkeypatch.setattr(SimulatedProcess, way, interrupted)
    session = session_of("coordinator")
    session.advance(until=0.0002)
    signals.append(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        session.advance(until=0.0004)
    assert session.state == "paused" and not signals
    session.advance()
    assert (session.state, session.digest()) == ("finished", digest_without_faults("coordinator"))


def test_ctrl_c_before_the_first_line_of_a_program_ends_it_and_the_session_can_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(run: ProgramRun) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgramRun, "_play", interrupted)
        session = session_of("coordinator")
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt) as raised:
                session.advance()
    assert session.state == "failed" and "session.rewind" in raised.value.__notes__[0]
    session.rewind(0.0)
    session.advance()
    assert (session.state, session.digest()) == ("finished", digest_without_faults("coordinator"))


def test_a_program_that_stands_still_where_ctrl_c_is_noted_does_not_note_that_of_its_caller() -> None:
    seen: list[int] = []

    def play() -> None:
        with delayed_interrupts() as noted:
            for _ in range(2):
                program.give_way()
            signal.raise_signal(signal.SIGINT)
            seen.append(len(noted))
        seen.append(2)

    program = ProgramGreenlet(play, TaskContext())
    for _ in range(2):
        program.go_on()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        program.go_on()
    assert seen == [1]
