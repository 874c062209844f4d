"""What faults ask of the simulated machines before anything befalls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simdist.runtime.simulated.effects import SimulatedEffects
from tests.runtime.simulated.machines import BANDWIDTH, LATENCY_S, world


@pytest.fixture
def there() -> Any:
    return world()


def test_a_task_is_over_when_it_has_died_and_nothing_is_to_start_it_again(there: Any) -> None:
    effects = SimulatedEffects(there, None)
    effects.crash("worker:0", None, "for good")
    effects.crash("worker:1", 1.0, "for a second")
    tasks = [None, "chief:0", "worker:0", "worker:1"]
    assert [effects.is_over(task) for task in tasks] == [False, False, True, False]
    there.clock.sleep(2.0)
    assert [effects.is_over(task) for task in tasks] == [False, False, True, False]


def test_everything_is_over_in_a_cluster_that_was_closed(there: Any) -> None:
    effects = SimulatedEffects(there, None)
    there.clock.close()
    assert effects.is_over(None) and effects.is_over("chief:0")


def copied_s(there: Any, size_bytes: float) -> float:
    """How long these bytes take from worker:0 to ps:0."""
    began_s, ended_s = there.now, list[float]()
    there.copy("worker:0", "ps:0", size_bytes, "bytes", lambda error: ended_s.append(there.now))
    there.clock.sleep(100.0)
    return ended_s[0] - began_s


def test_a_slow_link_divides_the_bandwidth_and_multiplies_the_latency_until_it_is_healed(there: Any) -> None:
    effects = SimulatedEffects(there, None)
    whole_s = LATENCY_S + 1000.0 / BANDWIDTH
    assert copied_s(there, 1000.0) == pytest.approx(whole_s)
    heal = effects.slow_link("worker:0", "ps:0", 4.0, 3.0)
    assert copied_s(there, 1000.0) == pytest.approx(3 * LATENCY_S + 4 * 1000.0 / BANDWIDTH)
    heal()
    assert copied_s(there, 1000.0) == pytest.approx(whole_s)


LAID: dict[str, Callable[[SimulatedEffects], Callable[[], None]]] = {
    "slow link": lambda effects: effects.slow_link("worker:0", "chief:0", 1.0, 2.0),
    "drop": lambda effects: effects.drop("worker:0", "chief:0", frozenset({"heartbeat"}), 1.0),
    "delay": lambda effects: effects.delay("worker:0", "chief:0", frozenset({"heartbeat"}), 1.0, 1.0, 0.0),
    "cut": lambda effects: effects.cut("worker:0", "chief:0"),
    "pause": lambda effects: effects.pause("worker:0"),
}


@pytest.mark.parametrize("effect", LAID)
def test_who_waits_for_heartbeats_is_told_when_an_effect_on_them_begins_and_when_it_ends(effect: str, there: Any) -> None:
    told: list[float] = []
    there.silence.changed.append(lambda: told.append(there.now))
    heal = LAID[effect](SimulatedEffects(there, None))
    assert told == [0.0]
    there.clock.sleep(1.0)
    heal()
    assert told == [0.0, 1.0]
