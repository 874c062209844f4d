"""What faults ask of the simulated machines before anything befalls them."""

from __future__ import annotations

from typing import Any

import pytest

from simdist.runtime.simulated.effects import SimulatedEffects
from tests.runtime.simulated.machines import world


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
