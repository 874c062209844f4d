"""Ctrl-C while the chief gives a closure to a worker: the closure is on its way then, and the worker is not taken for busy for ever."""

from __future__ import annotations

import signal
from typing import Any

import pytest

import simdist as sd


@pytest.mark.parametrize("options", [{}, {"mode": "sync"}, {"exactly_once": True}], ids=str)
@pytest.mark.parametrize("is_step", [True, False])
def test_ctrl_c_in_schedule_leaves_a_coordinator_that_goes_on(
    options: dict[str, Any], is_step: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), **options)
    with strategy.scope():
        count = sd.Variable(0)

    def add() -> None:
        count.assign_add(1)

    step = sd.function(add)
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(step)
    coordinator.join()
    what = "call" if is_step else "call_function"
    send = getattr(coordinator.pool, what)

    def interrupted(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return send(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(coordinator.pool, what, interrupted)
        with pytest.raises(KeyboardInterrupt):
            coordinator.schedule(step if is_step else lambda: None)
    assert (coordinator.scheduled, coordinator.pending) == (2, 1)
    for _ in range(3):
        coordinator.schedule(step)
    coordinator.join()
    assert int(count) == (5 if is_step else 4)
