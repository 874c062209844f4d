"""What comes first where a fault and something else are due at the same second: it decides which messages are lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import simdist as sd

FIRST_S, SECOND_S = 0.5, 0.75
Where = Callable[[sd.Session], None]


def losing(at_s: float) -> dict[str, Any]:
    """Closures that the chief sends at this very second are lost."""
    return {"source": "chief:0", "target": "worker:0", "at": at_s, "until": at_s + 2e-5}


def program(*waits_s: float, plans: float | None = None) -> Callable[[sd.Cluster], None]:
    """Sends one closure after the waits."""

    def run(cluster: sd.Cluster) -> None:
        if plans is not None:
            cluster.faults.drop(**losing(plans))
        coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        for seconds in waits_s:
            sd.sleep(seconds, cluster)
        coordinator.schedule(lambda: None)
        coordinator.join()

    return run


def is_lost(run: Callable[[sd.Cluster], None], inject: Where = lambda session: None) -> bool:
    session = sd.Session(run, sd.Cluster({"worker": 1, "ps": 1}))
    inject(session)
    session.advance()
    assert session.state == "finished"
    return session.now > 1.0  # a lost closure is run again after a time-out


def now(at_s: float) -> Where:
    fault = {"kind": "drop", **losing(at_s)}
    del fault["at"]

    def inject(session: sd.Session) -> None:
        session.advance(until=at_s)
        session.inject(fault)

    return inject


def before(at_s: float, injected_s: float | None = None) -> Where:
    def inject(session: sd.Session) -> None:
        if injected_s is not None:
            session.advance(until=injected_s)
        session.inject({"kind": "drop", **losing(at_s)})

    return inject


def test_a_fault_now_comes_after_all_of_its_second_and_one_injected_before_what_it_waits_for_comes_first() -> None:
    later = program(FIRST_S, SECOND_S - FIRST_S)
    assert not is_lost(later, now(SECOND_S))
    assert is_lost(later, before(SECOND_S))
    assert is_lost(later, before(SECOND_S, injected_s=0.4))


def test_a_fault_comes_after_the_end_of_the_wait_in_which_it_was_injected() -> None:
    assert not is_lost(program(FIRST_S, SECOND_S - FIRST_S), before(SECOND_S, injected_s=0.6))


@pytest.mark.parametrize("inject", [now(FIRST_S), before(FIRST_S)])
def test_the_first_event_of_a_program_comes_before_each_injected_fault_of_its_second(inject: Where) -> None:
    assert not is_lost(program(FIRST_S), inject)
    assert is_lost(program(FIRST_S, plans=FIRST_S))
