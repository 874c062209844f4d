"""A full ledger is computed while somebody notes a call; whatever ends that early, nothing that was noted is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.ledger import computing
from simdist.ledger.call_by_call import CallByCall

STEPS = 40


@pytest.fixture
def fail_at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The n-th kernel call raises, once."""
    left, original = [0, RuntimeError()], CallByCall.run_kernel

    def run_kernel(calls: CallByCall, *arguments: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise left[1]
        return original(calls, *arguments)

    monkeypatch.setattr(CallByCall, "run_kernel", run_kernel)
    return lambda number, error: left.__setitem__(slice(None), [number, error])


def scheduled(numerics: str) -> tuple[sd.ClusterCoordinator, sd.Variable]:
    cluster = sd.Cluster({"worker": 2, "ps": 1}, numerics=numerics)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        variable = sd.Variable(np.zeros(3, np.float32))
    coordinator = sd.ClusterCoordinator(strategy)
    step = sd.function(lambda: variable.assign_add(np.ones(3, np.float32)))
    for _ in range(STEPS):
        coordinator.schedule(step)
    return coordinator, variable


@pytest.mark.parametrize("failing_call", [1, 7, 16])
def test_an_error_while_a_full_ledger_makes_room_loses_no_update_and_no_closure(
    failing_call: int, fail_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computing, "FULL", 8)
    coordinator, variable = scheduled("loop")
    fail_at(failing_call, MemoryError())
    coordinator.join()
    assert variable.numpy().tolist() == [STEPS] * 3


def test_an_impatient_ctrl_c_while_a_full_ledger_makes_room_ends_the_wait_and_loses_nothing(
    fail_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computing, "FULL", 8)
    coordinator, variable = scheduled("loop")
    fail_at(5, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        coordinator.join()
    coordinator.join()
    assert variable.numpy().tolist() == [STEPS] * 3


def test_an_error_that_stays_comes_to_whoever_looks(fail_at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing, "FULL", 8)
    coordinator, variable = scheduled("loop")
    monkeypatch.setattr(CallByCall, "run_kernel", lambda *_: (_ for _ in ()).throw(MemoryError("full")))
    coordinator.join()
    with pytest.raises(MemoryError, match="full"):
        variable.numpy()


def test_an_update_that_fails_at_its_server_fails_its_closure(fail_at: Any) -> None:
    coordinator, variable = scheduled("eager")
    fail_at(5, MemoryError("full"))
    with pytest.raises(MemoryError, match="full"):
        coordinator.join()
    done = variable.numpy()[0]
    coordinator.schedule(sd.function(lambda: variable.assign_add(np.ones(3, np.float32))))
    coordinator.join()
    assert variable.numpy()[0] == done + 1
