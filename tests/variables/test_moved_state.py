"""Copies of a variable that may differ from now on have the slots and the count that the variable had, and go on as each would alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import keras as plain
import numpy as np
import optax
import pytest

import simdist as sd

RATE, REPLICAS = 0.1, 2


class Alone:
    """Two variables of one device under a Keras optimizer."""

    def __init__(self, rule: Any) -> None:
        self.variables = [plain.Variable(np.full(3, first, np.float32)) for first in (1.0, 2.0)]
        self.optimizer = rule
        self.optimizer.build(self.variables)

    def train(self, trained: list[int]) -> None:
        pairs = [(2 * REPLICAS * self.variables[number].value, self.variables[number]) for number in trained]
        self.optimizer.apply_gradients(pairs)


class Replicas:
    """The same on two replicas."""

    def __init__(self, rule: Any) -> None:
        self.strategy = sd.MirroredStrategy(REPLICAS)
        with self.strategy.scope():
            self.variables = [sd.Variable(np.full(3, first, np.float32), name=f"v{first}") for first in (1.0, 2.0)]
            self.optimizer = sd.Optimizer(rule)
        self.optimizer.build(self.variables)

    def train(self, trained: list[int]) -> None:
        chosen = [self.variables[number] for number in trained]

        def replica() -> None:
            _, gradients = sd.value_and_grad(lambda: sum((v.value**2).sum() for v in chosen), chosen)()
            self.optimizer.apply_gradients(zip(gradients, chosen, strict=True))

        self.strategy.run(replica)

    def assign_in_replicas(self, number: int, value: Callable[[Any], Any]) -> None:
        self.strategy.run(lambda: self.variables[number].assign(value(self.variables[number].value)))


@pytest.mark.parametrize("make", [plain.optimizers.Adam, plain.optimizers.Nadam, plain.optimizers.SGD], ids=lambda make: make.__name__)
@pytest.mark.sample(2)
def test_weights_that_replicas_clip_are_trained_on_from_the_slots_that_they_had(make: Callable[..., Any]) -> None:
    alone, replicas = Alone(make(RATE)), Replicas(make(RATE))
    for number, trained in enumerate([[0, 1], [0, 1], [0], [1], [0, 1]]):
        alone.train(trained)
        replicas.train(trained)
        if number == 1:
            alone.variables[1].assign(np.clip(alone.variables[1].value, -0.5, 0.5))
            replicas.assign_in_replicas(1, lambda value: jnp.clip(value, -0.5, 0.5))
        for found, expected in zip(replicas.variables, alone.variables, strict=True):
            for copy in replicas.strategy.local_results(found):
                np.testing.assert_allclose(copy, expected.value, rtol=1e-5)
    assert int(replicas.optimizer.iterations.numpy()) == 5
    for found, expected in zip(replicas.optimizer.wrapped.variables, alone.optimizer.variables, strict=True):
        np.testing.assert_allclose(found.numpy(), expected.value, rtol=1e-5, err_msg=expected.path)
    assert replicas.variables[1].placement.spread == "replicas"


def test_the_state_of_an_optax_rule_goes_along_and_what_is_left_behind_is_dropped() -> None:
    replicas, rule = Replicas(optax.adam(RATE)), optax.adam(RATE)
    values = [jnp.full(3, 1.0), jnp.full(3, 2.0)]
    state = rule.init(values)
    for number in range(3):
        replicas.train([0, 1])
        updates, state = rule.update([2 * REPLICAS * value for value in values], state, values)
        values = [value + update for value, update in zip(values, updates, strict=True)]
        if number == 0:
            before = memory_of(replicas.strategy)
            replicas.assign_in_replicas(1, lambda value: value * 0.5)
            values[1] = values[1] * 0.5
    for found, expected in zip(replicas.variables, values, strict=True):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
    assert int(replicas.optimizer.iterations) == 3
    # A copy has slots and two counts of its own, and nothing else has come.
    assert [after - then for after, then in zip(memory_of(replicas.strategy), before, strict=True)] == [2 * 4] * REPLICAS


def memory_of(strategy: sd.Strategy) -> list[int]:
    return [strategy.cluster.engine.memory(device).in_use_bytes for device in strategy.replica_devices()]


@pytest.mark.parametrize(("number", "gone"), [(1, "worker:1"), (2, "worker:0")])
@pytest.mark.parametrize("make", [lambda: plain.optimizers.Adam(RATE), lambda: optax.adam(RATE)], ids=["keras", "optax"])
@pytest.mark.sample
def test_the_state_of_copies_goes_on_where_a_replica_leaves_and_comes_back(make: Callable[[], Any], number: int, gone: str) -> None:
    cluster = sd.Cluster({"worker": 3})
    strategy = sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue")
    with strategy.scope():
        variables = [sd.Variable(np.full(3, first, np.float32)) for first in (1.0, 2.0)]
        optimizer = sd.Optimizer(make())
    optimizer.build(variables)
    alone, before = Alone(plain.optimizers.Adam(RATE)), list[int]()

    def replica() -> None:
        _, gradients = sd.value_and_grad(lambda: sum((v.value**2).sum() for v in variables), variables)()
        optimizer.apply_gradients(zip(gradients, variables, strict=True))

    for step in range(6):
        if step == 1:
            for each, expected in zip(variables[:number], alone.variables, strict=False):
                strategy.run(lambda each=each: each.assign(each.value * 0.5))
                expected.assign(expected.value * 0.5)
        if step == 2:
            before = memory_of(strategy)
            cluster.faults.crash(gone, at=cluster.now, restart_after=0.1)
        if step == 4:
            sd.sleep(5.0, cluster)
        strategy.run(replica)
        alone.optimizer.apply_gradients([(2 * strategy.num_replicas_in_sync * v.value, v) for v in alone.variables])
        for found, expected in zip(variables, alone.variables, strict=True):
            for copy in strategy.local_results(found):
                np.testing.assert_allclose(copy, expected.value, rtol=1e-5)
    assert strategy.num_replicas_in_sync == 3
    assert memory_of(strategy) == before
