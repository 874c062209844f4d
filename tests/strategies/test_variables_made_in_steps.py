"""Variables that a step makes: once, where they are not there yet, or each time that it is traced."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError


@pytest.mark.parametrize("devices", [1, 2])
def test_what_a_step_makes_once_is_no_variable_of_another_trace(devices: int) -> None:
    strategy, heads = sd.MirroredStrategy(devices), dict[str, sd.Variable]()

    def replica(head: str) -> Any:
        if head not in heads:
            heads[head] = sd.Variable(10.0 * (1 + len(heads)), aggregation=sd.VariableAggregation.MEAN)
        heads[head].assign(heads[head].value + 1.0)
        return heads[head].value

    step = sd.function(lambda head: strategy.run(replica, args=(head,)))
    with strategy.scope():
        found = [float(strategy.local_results(step(head))[-1]) for head in ("a", "b", "a", "b")]
    assert found == [11.0, 21.0, 12.0, 22.0]
    assert {head: float(variable.numpy()) for head, variable in heads.items()} == {"a": 12.0, "b": 22.0}


def test_what_a_step_makes_before_it_fails_is_no_variable_of_the_next_call() -> None:
    strategy, found = sd.OneDeviceStrategy(), dict[str, sd.Variable]()

    @sd.function
    def step(x: Any) -> Any:
        if "first" not in found:
            found["first"] = sd.Variable(1.0)
            raise ValueError("the first call fails")
        if "second" not in found:
            found["second"] = sd.Variable(2.0)
        return found["first"].value + x, found["second"].value + x

    with strategy.scope():
        with pytest.raises(ValueError, match="the first call fails"):
            step(jnp.float32(0.0))
        assert [float(value) for value in step(jnp.float32(0.0))] == [1.0, 2.0]


def test_what_a_step_makes_before_it_needs_values_is_no_variable_of_the_trace_that_has_them() -> None:
    strategy, found = sd.OneDeviceStrategy(), dict[str, sd.Variable]()

    @sd.function
    def step(x: Any) -> Any:
        if "first" not in found:
            found["first"] = sd.Variable(1.0)
        sign = 1.0 if float(x) > 0.0 else -1.0
        if "second" not in found:
            found["second"] = sd.Variable(20.0)
        return found["first"].value + x * sign, found["second"].value + x * sign

    step.run_eagerly = True
    with strategy.scope():
        assert [[float(value) for value in step(jnp.float32(x))] for x in (1.0, -2.0)] == [[2.0, 21.0], [3.0, 22.0]]


def test_what_an_interrupted_step_has_made_is_no_variable_of_the_next_call() -> None:
    strategy, found = sd.OneDeviceStrategy(), list[sd.Variable]()

    @sd.function
    def step() -> Any:
        found.append(sd.Variable(float(len(found))))
        if len(found) == 1:
            raise KeyboardInterrupt
        return found[-1].value

    with strategy.scope():
        with pytest.raises(KeyboardInterrupt):
            step()
        assert float(step()) == 1.0


def test_a_step_that_makes_one_each_time_has_the_same_in_all_traces() -> None:
    strategy = sd.MirroredStrategy(2)

    @sd.function
    def step(x: Any) -> Any:
        count = sd.Variable(0.0, trainable=False)
        count.assign_add(1.0)
        return strategy.reduce("sum", strategy.run(lambda x: x.sum(), args=(x,)), axis=None) + count.value

    with strategy.scope():
        assert [float(step(x)) for x in (jnp.zeros(2), jnp.zeros(3), jnp.zeros(2))] == [1.0, 2.0, 3.0]


def test_a_step_that_makes_one_each_time_and_another_once_is_refused() -> None:
    strategy, kept = sd.OneDeviceStrategy(), list[sd.Variable]()

    @sd.function
    def step() -> Any:
        if not kept:
            kept.append(sd.Variable(1.0))
        each_time = sd.Variable(2.0)
        return kept[0].value + each_time.value

    with strategy.scope(), pytest.raises(InvalidArgumentError, match=r"makes 2 variables .* 1 where it is traced once more"):
        step()


def test_a_variable_of_another_name_is_not_that_of_an_earlier_trace() -> None:
    @sd.function
    def step(name: str) -> Any:
        return sd.Variable(float(len(name)), name=name).value

    with sd.OneDeviceStrategy().scope():
        assert float(step("first")) == 5.0
        with pytest.raises(InvalidArgumentError, match=r"creates 'other' .*, where another trace created 'first'"):
            step("other")
        assert float(step("first")) == 5.0


def test_what_a_step_makes_before_it_builds_a_model_is_no_variable_of_the_trace_after_that() -> None:
    strategy, found = sd.OneDeviceStrategy(), dict[str, sd.Variable]()

    @sd.function
    def step(x: Any) -> Any:
        if "first" not in found:
            found["first"] = sd.Variable(1.0)
        layer(x)
        if "second" not in found:
            found["second"] = sd.Variable(20.0)
        return found["first"].value, found["second"].value

    with strategy.scope():
        layer = keras.Sequential([keras.layers.Dense(1)])
        assert [float(value) for value in step(jnp.ones((2, 3)))] == [1.0, 20.0]


def test_replicas_that_make_one_once_hand_over_constants_of_their_rank() -> None:
    strategy, found = sd.MirroredStrategy(2), list[sd.Variable]()

    def replica() -> Any:
        rank = sd.get_replica_context().replica_id_in_sync_group
        if not found:
            found.append(sd.Variable(1.0, aggregation=sd.VariableAggregation.SUM))
        found[0].assign(10.0 * (1 + rank))
        return found[0].value

    step = sd.function(lambda: strategy.run(replica))
    with strategy.scope():
        assert [float(value) for value in strategy.local_results(step())] == [30.0, 30.0]


def test_a_constant_of_all_replicas_is_known_as_such_by_a_trace_that_is_repeated() -> None:
    strategy, found = sd.MirroredStrategy(2), list[sd.Variable]()

    def replica() -> Any:
        return {"number": 3, "rank": jnp.float32(sd.get_replica_context().replica_id_in_sync_group)}

    @sd.function
    def step() -> Any:
        results = strategy.run(replica)
        zeros = jnp.zeros(results["number"])
        if not found:
            found.append(sd.Variable(2.0))
        return found[0].value + zeros.sum() + strategy.reduce("sum", results["rank"], axis=None)

    with strategy.scope():
        assert float(step()) == 3.0
