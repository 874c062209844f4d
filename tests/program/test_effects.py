"""What a step does besides giving results: prints and callbacks run once for each time that the step computes them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import simdist as sd
from simdist import keras
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval

NUMBER = jax.ShapeDtypeStruct((), np.float32)
ONE = np.float32(1)


def _times(factor: float) -> Any:
    def host(x: Any) -> Any:
        return np.float32(x * factor)

    return sd.function(lambda x: jax.pure_callback(host, NUMBER, x))


@pytest.mark.parametrize("engine", ["simulated", "in_process"])
def test_steps_that_call_different_functions_are_different(engine: str) -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}, engine=engine))
    results = [strategy.local_results(strategy.run(_times(factor), args=(ONE,))) for factor in (2.0, 3.0)]
    assert [list(map(float, result)) for result in results] == [[2, 2], [3, 3]]


def test_a_kernel_with_an_effect_is_called_at_once_and_others_are_not() -> None:
    def printing(x: jax.Array) -> list[jax.Array]:
        jax.debug.print("{}", x)
        return [x]

    aval = Aval((), "float32")
    assert kernel_of("prints", printing, [aval]).runs_at_once
    assert not kernel_of("prints", lambda x: [x + 1], [aval]).runs_at_once
    assert kernel_of("prints", printing, [aval]) is not kernel_of("prints", printing, [aval])


@pytest.mark.parametrize("numerics", ["deferred", "eager", "loop", "replay", "vmap", "in_process"])
@pytest.mark.sample(2)
def test_what_a_step_looks_at_is_seen_once_by_each_replica_in_each_step(numerics: str) -> None:
    options: dict[str, Any] = {"engine": numerics} if numerics == "in_process" else {"numerics": numerics}
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}, **options))
    with strategy.scope():
        v = sd.Variable(1.0)
    seen: list[tuple[str, float]] = []

    @sd.function
    def step(x: Any) -> Any:
        jax.debug.callback(lambda value: seen.append(("before", float(value))), x * v.value)
        v.assign(v.value + 1)
        jax.debug.callback(lambda value: seen.append(("after", float(value))), jnp.sqrt(v.value))

    for _ in range(3):
        strategy.run(step, args=(ONE,))
    assert float(v.numpy()) == 4
    jax.effects_barrier()
    expected = [("before", float(n)) for n in (1, 2, 3)] + [("after", float(np.sqrt(np.float32(n)))) for n in (2, 3, 4)]
    assert sorted(seen) == sorted(expected * 2)


def test_effects_in_their_order_come_in_it() -> None:
    seen: list[float] = []

    @sd.function
    def step(x: Any) -> None:
        for factor in range(4):
            io_callback(lambda value: seen.append(float(value)), None, x * factor, ordered=True)

    sd.OneDeviceStrategy().run(step, args=(ONE,))
    assert seen == [0, 1, 2, 3]


def test_a_print_without_values_and_one_within_a_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    with sd.OneDeviceStrategy().scope():
        v = sd.Variable(3.0)

        @sd.function
        def step() -> Any:
            def loss() -> Any:
                squared = v.value**2
                jax.debug.print("loss {}", squared)
                return squared

            jax.debug.print("begins")
            _, (gradient,) = sd.value_and_grad(loss, [v])()
            v.assign_sub(0.5 * gradient)

        step()
    jax.effects_barrier()
    assert sorted(capsys.readouterr().out.split("\n")) == ["", "begins", "loss 9.0"]
    assert float(v.numpy()) == 0


def test_a_layer_that_looks_at_its_batch_sees_each_part_once() -> None:
    seen: list[int] = []

    class Looks(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            jax.debug.callback(lambda value: seen.append(len(value)), x)
            return x

    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input((2,)), Looks(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(np.ones((8, 2)), np.ones((8, 1)), batch_size=4, epochs=2, verbose=0)
    jax.effects_barrier()
    assert seen == [2] * 8


@pytest.mark.parametrize("engine", ["simulated", "in_process"])
def test_closures_are_seen_once_each(engine: str) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}, engine=engine))
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        w = sd.Variable(0.0)
    seen: list[float] = []

    @sd.function
    def step(number: Any) -> None:
        jax.debug.callback(lambda value: seen.append(float(value)), number + 0 * w.value)
        w.assign_add(1.0)

    for number in range(6):
        coordinator.schedule(step, args=(np.float32(number),))
    coordinator.join()
    jax.effects_barrier()
    assert sorted(seen) == [0, 1, 2, 3, 4, 5]
    assert float(w.numpy()) == 6


def test_without_numbers_nothing_is_seen() -> None:
    seen: list[float] = []
    strategy = sd.MirroredStrategy(2, cluster=sd.Cluster({"worker": 1}, numerics="off"))
    strategy.run(sd.function(lambda x: jax.debug.callback(lambda value: seen.append(float(value)), x)), args=(ONE,))
    jax.effects_barrier()
    assert seen == []
