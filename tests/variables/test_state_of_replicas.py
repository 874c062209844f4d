"""State of an optimizer of which each replica has its own, because each has variables of its own for some steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import FailedPreconditionError
from simdist.variables.placement import Placement
from simdist.variables.slots import unplaced

RATE, MOMENTUM, SCALE, GROWTH, REPLICAS = 0.125, 0.5, 8.0, 2, 2
X = np.random.default_rng(0).normal(size=(7, 8)).astype(np.float32)  # of each step a batch, 4 rows of it for each replica
X[2, 6] = np.inf  # the second replica skips the third step
EVERY = 2


def weights_and_scales() -> tuple[list[np.ndarray], list[list[float]]]:
    """After each step the mean of the weights; and the scale of each replica in it, in numpy."""
    weight, speed = np.ones(REPLICAS), np.zeros(REPLICAS)
    scale, count = np.full(REPLICAS, SCALE), np.zeros(REPLICAS, int)
    means, scales = list[np.ndarray](), list[list[float]]()
    for number, x in enumerate(X.reshape(-1, REPLICAS, 4).astype(np.float64), 1):
        scales.append(scale.tolist())
        for rank in range(REPLICAS):
            with np.errstate(invalid="ignore"):
                gradient = weight[rank] * np.mean(x[rank] ** 2)
            if not np.isfinite(gradient):
                scale[rank], count[rank] = scale[rank] / 2, 0
                continue
            speed[rank] = MOMENTUM * speed[rank] - RATE * gradient
            weight[rank] += speed[rank]
            count[rank] += 1
            if count[rank] == GROWTH:
                scale[rank], count[rank] = scale[rank] * 2, 0
        if not number % EVERY:
            weight[:] = weight.mean()
        means.append(weight.mean())
    return means, scales


def workers(mains: bool = False) -> sd.MultiWorkerMirroredStrategy:
    cluster = () if mains else (sd.Cluster({"worker": REPLICAS}),)
    return sd.MultiWorkerMirroredStrategy(*cluster, sync_every=EVERY)


def trained(mains: bool) -> tuple[list[np.ndarray], list[list[float]]]:
    """The same, by the steps of a strategy."""
    strategy = workers(mains)
    with strategy.scope():
        weight = sd.Variable(1.0)
        inner = keras.optimizers.SGD(RATE, momentum=MOMENTUM)
        optimizer = sd.Optimizer(keras.optimizers.LossScaleOptimizer(inner, initial_scale=SCALE, dynamic_growth_steps=GROWTH))
    optimizer.build([weight])
    wrapped: Any = optimizer.wrapped

    def replica(x: Any) -> Any:
        scale = wrapped.dynamic_scale.value

        def loss() -> Any:
            return wrapped.scale_loss(sd.compute_average_loss((weight.value * x) ** 2 / 2))

        _, gradients = sd.value_and_grad(loss, [weight])()
        optimizer.apply_gradients(zip(gradients, [weight], strict=True))
        return scale

    step = sd.function(lambda iterator: strategy.run(replica, args=(next(iterator),)))
    iterator = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices(X.reshape(-1)).batch(8)))
    means, scales = list[np.ndarray](), list[list[float]]()
    for _ in range(len(X)):
        scale = step(iterator)
        means.append(weight.numpy())
        scales.append([float(value) for value in strategy.local_results(scale)])
    return means, scales


def test_losses_are_scaled_by_the_scale_of_each_replica() -> None:
    means, scales = trained(mains=False)
    expected, of_each = weights_and_scales()
    assert of_each[3] == [16.0, 8.0] and scales == of_each
    np.testing.assert_allclose(means, expected, rtol=1e-5)


def test_mains_scale_their_losses_by_scales_of_their_own() -> None:
    run = sd.Cluster({"worker": REPLICAS}).launch(lambda: trained(mains=True))
    run.join()
    expected, of_each = weights_and_scales()
    for rank, (means, scales) in enumerate(run.results.values()):
        assert scales == [[scale[rank]] for scale in of_each]
        np.testing.assert_allclose(means[EVERY - 1 :: EVERY], expected[EVERY - 1 :: EVERY], rtol=1e-5)  # in between it has its own


@pytest.mark.parametrize("optimizer", [lambda: keras.optimizers.SGD(0.5), lambda: optax.sgd(0.5)])
def test_rate_and_count_are_read_in_a_replica_and_changed_outside(optimizer: Any) -> None:
    strategy = workers()
    with strategy.scope():
        weight, own = sd.Variable(4.0), sd.Optimizer(optimizer())
    own.build([weight])
    is_keras = hasattr(own.wrapped, "learning_rate")

    def replica() -> Any:
        rate, count = (own.wrapped.learning_rate.value if is_keras else 0.5), 1 * own.iterations
        own.apply_gradients([(weight.value * 0 + 0.25, weight)])
        return rate, count

    step = sd.function(lambda: strategy.run(replica))
    for number in range(3):
        rates, counts = step()
        assert [float(rate) for rate in strategy.local_results(rates)][:1] == [0.5]
        assert [int(count) for count in strategy.local_results(counts)] == [number, number]
    if is_keras:
        own.wrapped.learning_rate = 0.0
        before = weight.numpy()
        assert [float(rate) for rate in strategy.local_results(step()[0])] == [0.0, 0.0]
        np.testing.assert_array_equal(weight.numpy(), before)


@pytest.mark.parametrize("separated", [0, 1])
def test_a_rate_beside_shared_variables_and_such_of_each_replica_is_the_shared_one(separated: int) -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        variables = [sd.Variable(1.0), sd.Variable(2.0)]
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.5))
    strategy.run(lambda: variables[separated].assign_add(0.0))

    def replica() -> Any:
        rate = optimizer.wrapped.learning_rate.value
        optimizer.apply_gradients([(variable.value, variable) for variable in variables])
        return rate

    optimizer.build(variables)
    step = sd.function(lambda: strategy.run(replica))
    for rate in (0.5, 0.25):
        optimizer.wrapped.learning_rate = rate
        assert [float(value) for value in strategy.local_results(step())] == [rate, rate]


def test_the_value_of_another_replica_is_not_said_to_be_lost() -> None:
    strategy = workers()
    with strategy.scope():
        weight = sd.Variable(1.0, name="weight")
    of_the_first = unplaced("of the first", (), Placement(weight.placement.cells, strategy.store, "copies"))
    with pytest.raises(
        FailedPreconditionError, match=r"worker:1.* was about to read the weight of .*worker:0.*a value of its own.*all_gather"
    ):
        strategy.run(lambda: of_the_first.value)
