"""Ctrl-C in a block that belongs together: it is raised at the end of the block."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.coordinator.executor import ClosureExecutor
from simdist.interrupts import delayed_interrupts
from simdist.program import scope as scopes


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_waits_for_the_end_of_the_block_and_a_second_one_does_not() -> None:
    before, came = signal.getsignal(signal.SIGINT), list[str]()
    with pytest.raises(KeyboardInterrupt), delayed_interrupts():
        interrupt()
        came.append("the end")
    with pytest.raises(KeyboardInterrupt), delayed_interrupts():
        interrupt()
        interrupt()
        came.append("never")
    assert came == ["the end"] and signal.getsignal(signal.SIGINT) is before


def test_an_inner_block_hands_ctrl_c_on_to_the_outer_one() -> None:
    came = list[str]()
    with pytest.raises(KeyboardInterrupt), delayed_interrupts():
        with delayed_interrupts():
            interrupt()
        came.append("the end")
    assert came == ["the end"]


def test_an_error_of_the_block_is_the_context_of_the_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt) as raised, delayed_interrupts():
        interrupt()
        raise ValueError("of the block")
    assert isinstance(raised.value.__context__, ValueError)


def test_a_block_of_another_thread_leaves_signals_alone() -> None:
    seen = list[Any]()

    def block() -> None:
        with delayed_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=block)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_closure_that_is_scheduled_when_ctrl_c_comes_ends_once(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), mode=mode)
    with strategy.scope():
        count = sd.Variable(0.0)
    coordinator, dispatch = sd.ClusterCoordinator(strategy), ClosureExecutor._dispatch
    step = sd.function(lambda: count.assign_add(1.0))

    def interrupted(self: ClosureExecutor, attempt: Any) -> None:
        monkeypatch.setattr(ClosureExecutor, "_dispatch", dispatch)
        interrupt()
        dispatch(self, attempt)

    monkeypatch.setattr(ClosureExecutor, "_dispatch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        coordinator.schedule(step)
    coordinator.schedule(step)
    coordinator.join()
    assert float(count.numpy()) == 2.0


def test_a_scope_that_closes_when_ctrl_c_comes_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(ExitStack):
        def __exit__(self, *error: Any) -> bool | None:
            interrupt()
            return super().__exit__(*error)

    with monkeypatch.context() as patch:
        patch.setattr(scopes, "ExitStack", Interrupted)
        with pytest.raises(KeyboardInterrupt), sd.MirroredStrategy(2).scope():
            pass
    with sd.MirroredStrategy(2).scope():
        sd.Variable(1.0)
    assert type(keras.Variable(1.0)) is keras.Variable  # no scope owns it


def test_an_optimizer_that_is_built_when_ctrl_c_comes_is_built() -> None:
    def trained(optimizer: Any, times: int) -> Any:
        strategy = sd.MirroredStrategy(2)
        with strategy.scope():
            v, wrapped = sd.Variable(np.ones(2, np.float32)), sd.Optimizer(optimizer)
        step = sd.function(lambda: strategy.run(lambda: wrapped.apply_gradients([(v.value, v)])))
        for _ in range(times):
            try:
                step()
            except KeyboardInterrupt:
                step()
        return v.numpy().tolist()

    interrupts = list[str]()

    class Interrupted(keras.optimizers.Adam):
        def add_optimizer_variables(self, *args: Any, **kwargs: Any) -> Any:
            if not interrupts:
                interrupts.append(self.name)
                interrupt()
            return super().add_optimizer_variables(*args, **kwargs)

    expected = trained(keras.optimizers.Adam(0.1), 3)
    assert trained(Interrupted(0.1), 3) == expected
    np.testing.assert_allclose(expected, trained(optax.adam(0.1, eps=1e-7), 3), rtol=1e-5)
