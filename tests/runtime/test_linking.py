"""Operands of a collective come from wherever they were made: kernels, constants, other collectives."""

from __future__ import annotations

from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_mean_over_examples_in_a_step_that_updates_equals_numpy(replicas: int) -> None:
    # The mean collectives a sum that a kernel makes together with a number of rows that is a constant.
    strategy = sd.MirroredStrategy(devices=replicas)
    x = np.arange(7, dtype=np.float32)
    with strategy.scope():
        w = sd.Variable(2.0, name="w")
        optimizer = sd.Optimizer(optax.sgd(0.5))

    @sd.function
    def step(inputs: Any) -> Any:
        def replica_fn(own: Any) -> Any:
            def compute_loss() -> Any:
                per_example = w * own
                return sd.compute_average_loss(per_example), per_example

            (_, per_example), gradients = sd.value_and_grad(compute_loss, [w], has_aux=True)()
            optimizer.apply_gradients(zip(gradients, [w], strict=True))
            return per_example

        return strategy.reduce(sd.ReduceOp.MEAN, strategy.run(replica_fn, args=(inputs,)), axis=0)

    dataset = sd.Dataset.from_tensor_slices(x).batch(7).repeat()
    losses = [float(step(inputs)) for inputs, _ in zip(strategy.distribute_dataset(dataset), range(2), strict=False)]
    assert losses == pytest.approx([2.0 * x.mean(), (2.0 - 0.5 * x.mean()) * x.mean()])
    assert float(w) == pytest.approx(2.0 - 2 * 0.5 * x.mean())


def test_exchange_of_an_argument_a_constant_and_a_result_sums_each() -> None:
    strategy = sd.MirroredStrategy(devices=3)

    @sd.function
    def step(given: Any) -> Any:
        def replica_fn(own: Any) -> Any:
            return sd.get_replica_context().all_reduce("sum", [own, np.float32(1.0), own * 2.0])

        return strategy.run(replica_fn, args=(given,))

    per_replica = step(sd.PerReplica([np.float32(1), np.float32(2), np.float32(4)]))
    assert [[float(value) for value in values] for values in strategy.local_results(per_replica)] == [[7.0, 3.0, 14.0]] * 3
