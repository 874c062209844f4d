"""Assignments from outside of every step: the numbers of a kernel, without a kernel for each cell of a wide group."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.ledger.call_by_call import CallByCall
from simdist.program.values import Aval
from simdist.runtime import updating
from simdist.runtime.simulated.engine import SimulatedEngine
from simdist.runtime.updating import WIDE, Assignment

STRATEGIES = [
    lambda: sd.MirroredStrategy(2),
    lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2})),
    lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}, engine="in_process")),
]


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels of assignments that are made."""
    made: list[str] = []
    original = updating.assigning
    monkeypatch.setattr(updating, "assigning", lambda rule, *args: made.append(rule) or original(rule, *args))
    return made


def trained(strategy: Any) -> tuple[Any, Any, sd.ClusterCoordinator | None, Callable[[], float]]:
    """A model whose variables and slots are one group on each device, its optimizer, and what takes a step."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), *[keras.layers.Dense(2) for _ in range(3)]])
        optimizer = keras.optimizers.Adam(0.1)
    x = np.ones((4, 2), np.float32)

    @sd.function
    def step() -> Any:
        loss, gradients = sd.value_and_grad(lambda: (model(x) ** 2).mean(), model.trainable_variables)()
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    coordinator = sd.ClusterCoordinator(strategy) if isinstance(strategy, sd.ParameterServerStrategy) else None
    if coordinator is not None:
        take = lambda: float(coordinator.schedule(step).fetch())  # noqa: E731
    else:
        take = lambda: float(strategy.local_results(strategy.run(step))[0])  # noqa: E731
    take()
    return model, optimizer, coordinator, take


@pytest.mark.parametrize("make", STRATEGIES)
def test_restored_and_set_weights_of_a_wide_group_need_no_kernel_each(make: Any, kernels: list[str], tmp_path: Path) -> None:
    model, optimizer, _, take = trained(make())
    assert len(model.trainable_variables[0].simdist_variable.placement.cells[0].group.cells) >= WIDE
    checkpoint = sd.Checkpoint(model=model, optimizer=optimizer)
    path, weights = checkpoint.save(str(tmp_path / "point")), model.get_weights()
    losses = [take(), take()]
    kernels.clear()
    checkpoint.restore(path)
    assert all(np.array_equal(now, saved) for now, saved in zip(model.get_weights(), weights, strict=True))
    assert [take(), take()] == losses
    model.set_weights([2 * weight for weight in weights])
    assert all(np.array_equal(now, 2 * saved) for now, saved in zip(model.get_weights(), weights, strict=True))
    assert not kernels


@pytest.mark.parametrize(
    ("rule", "dtype"), [("assign", "bool"), *[(rule, dtype) for rule in ("assign", "add") for dtype in ("float32", "bfloat16", "int32")]]
)
def test_numbers_are_those_of_the_kernel(rule: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [jnp.asarray(rng.integers(0, 2, shape) + rng.random(shape), dtype) for shape in ((3,), (2, 2), (3,))]
    change = Assignment(rule, tuple([Aval(array.shape, dtype) for array in arrays]), 1)
    operand = jnp.asarray(rng.random((2, 2)) * 3, dtype)
    expected, found = change.kernel(*arrays, operand), change.applied(tuple(arrays), operand)
    assert found.avals == change.state
    assert [np.asarray(array).tobytes() for array in found.arrays or ()] == [np.asarray(array).tobytes() for array in expected]


def test_an_assignment_is_not_told_of_an_error_of_a_step_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    with strategy.scope():
        variables = [sd.Variable(np.float32(number)) for number in range(WIDE + 1)]
        optimizer = keras.optimizers.SGD(1.0)
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(sd.function(lambda: optimizer.apply_gradients([(np.ones((), np.float32), variable) for variable in variables])))
    coordinator.join()

    def full(*_: Any) -> Any:
        raise MemoryError("full")

    with monkeypatch.context() as patched:
        patched.setattr(CallByCall, "run_kernel", full)
        variables[1].assign(5.0)
        with pytest.raises(MemoryError, match="full"):
            variables[1].numpy()
    assert [float(variable.numpy()) for variable in variables] == [-1.0, 5.0, *range(1, WIDE)]


@pytest.mark.parametrize("restores", [False, True])
def test_ctrl_c_while_what_is_pending_is_computed_leaves_no_part_of_an_assignment_undone(
    restores: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    servers = sd.Cluster({"worker": 1, "ps": 2})
    model, optimizer, _, take = trained(sd.ParameterServerStrategy(servers, variable_partitioner=sd.FixedShardsPartitioner(2)))
    kernels = [layer.kernel for layer in model.layers]
    checkpoint = sd.Checkpoint(model=model, optimizer=optimizer)
    path, saved = checkpoint.save(tmp_path / "one"), model.get_weights()
    take()
    original, known = SimulatedEngine._known, []

    def interrupted(self: SimulatedEngine, versions: Any) -> Any:
        known.append(versions)
        if len(known) == 2:
            signal.raise_signal(signal.SIGINT)
        return original(self, versions)

    monkeypatch.setattr(SimulatedEngine, "_known", interrupted)
    with pytest.raises(KeyboardInterrupt):
        if restores:
            checkpoint.restore(path)
        else:
            kernels[0].assign(np.full((2, 2), 9.0))
    found = [weight.tolist() for weight in model.get_weights()]
    assert found == [weight.tolist() for weight in saved] if restores else found[0] == [[9.0, 9.0]] * 2
