"""Ctrl-C while the chief gives a closure to a worker: the closure is on its way then, and the worker is not taken for busy for ever.

Or while a worker joins or leaves: it has done so wholly then.
"""

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


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("what", ["add", "remove"])
def test_ctrl_c_while_a_worker_joins_or_leaves_comes_when_it_has(what: str, is_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}))
    coordinator = sd.ClusterCoordinator(strategy)
    values = [coordinator.schedule(lambda: sd.sleep(1.0)) for _ in range(6)]
    sd.sleep(0.5)
    change = getattr(coordinator.pool, what)

    def interrupted(task: str) -> None:
        if is_first:
            signal.raise_signal(signal.SIGINT)
        change(task)
        if not is_first:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(coordinator.pool, what, interrupted)
        with pytest.raises(KeyboardInterrupt):
            coordinator.add_worker() if what == "add" else coordinator.remove_worker("worker:1")
    workers = ["worker:0", "worker:1", "worker:2"] if what == "add" else ["worker:0"]
    assert strategy.workers == workers
    coordinator.join()
    assert [value.fetch() for value in values] == [None] * 6
    busy = {span.lane for span in strategy.engine.trace.spans.where(category="closure") if span.end_s > 2.0}
    assert busy == set(workers)
