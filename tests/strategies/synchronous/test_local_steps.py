"""Local SGD and DiLoCo (table T8): bytes, and the trajectories that must come out."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from tests.strategies.conftest import bytes_sent, weights


@functools.cache  # what others are compared with is the same for many tests
def train(build: Any, dataset: sd.Dataset, workers: int = 4, epochs: int = 8, **options: Any) -> tuple[Any, sd.Cluster, list[np.ndarray]]:
    cluster = sd.Cluster({"worker": workers})
    strategy = sd.MultiWorkerMirroredStrategy(cluster, **options)
    model = build(strategy)
    history = model.fit(dataset, epochs=epochs, verbose=0)
    return history, cluster, weights(model)


@pytest.mark.parametrize("every", sampled([2, 4, 5, 8], [2, 5]))
def test_bytes_are_one_part_in_h(build: Any, regression: sd.Dataset, every: int) -> None:
    _, together, _ = train(build, regression)
    _, seldom, _ = train(build, regression, sync_every=every)
    assert bytes_sent(seldom) * every == bytes_sent(together)


@pytest.mark.parametrize("outer", [None, 1.0])
def test_averaging_after_each_sgd_step_equals_the_synchronous_step(build: Any, regression: sd.Dataset, outer: float | None) -> None:
    _, _, expected = train(build, regression)
    optimizer = None if outer is None else keras.optimizers.SGD(outer)
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 4}), sync_every=2, outer_optimizer=optimizer)
    # Replicas go alone, and meet all the same after each step: nobody would ask for that, but it is H = 1 of the theory.
    strategy.policy.every = 1
    model = build(strategy)
    model.fit(regression, epochs=8, verbose=0)
    for own, other in zip(weights(model), expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("every", [2, 5])
def test_equal_data_on_all_workers_gives_the_trajectory_of_one_bit_for_bit(build: Any, every: int) -> None:
    x = np.random.default_rng(1).normal(size=(24, 4)).astype(np.float32)
    y = x.sum(1, keepdims=True)
    repeated = [np.concatenate([part] * 4) for part in np.split(x, 3)], [np.concatenate([part] * 4) for part in np.split(y, 3)]
    same = sd.Dataset.from_tensor_slices((np.concatenate(repeated[0]), np.concatenate(repeated[1]))).batch(32)
    alone = sd.Dataset.from_tensor_slices((x, y)).batch(8)
    _, _, found = train(build, same, sync_every=every, epochs=10)
    _, _, expected = train(build, alone, workers=1, epochs=10)
    assert [own.tobytes() for own in found] == [other.tobytes() for other in expected]


@pytest.mark.parametrize(("skips", "factor"), [(False, 2.0), (True, 1.0)])
def test_gradients_of_a_step_alone_count_times_the_replicas_unless_they_are_taken_as_they_are(skips: bool, factor: float) -> None:
    """The loss of a loop of your own is divided by the global batch, whether replicas share each step or not."""
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sync_every=2)
    with strategy.scope():
        w, optimizer = sd.Variable(0.0), sd.Optimizer(keras.optimizers.SGD(0.1))
    slopes = strategy.distribute_values_from_function(lambda context: jnp.float32(1.0 + 2.0 * context.replica_id_in_sync_group))

    def step(slope: Any) -> None:
        _, gradients = sd.value_and_grad(lambda: w.value * slope, [w])()
        optimizer.apply_gradients(zip(gradients, [w], strict=True), skip_gradients_aggregation=skips)

    for _ in range(2):
        strategy.run(step, args=(slopes,))
    np.testing.assert_allclose(w.numpy(), -0.1 * 2 * factor * (1.0 + 3.0) / 2, rtol=1e-6)


def test_an_outer_optimizer_moves_from_where_all_began(build: Any, regression: sd.Dataset) -> None:
    _, _, averaged = train(build, regression, sync_every=5, epochs=1)
    _, _, whole_way = train(build, regression, sync_every=5, epochs=1, outer_optimizer=keras.optimizers.SGD(1.0))
    _, _, half_way = train(build, regression, sync_every=5, epochs=1, outer_optimizer=keras.optimizers.SGD(0.5))
    start = weights(build(sd.OneDeviceStrategy()))
    for began, half, whole, mean in zip(start, half_way, whole_way, averaged, strict=True):
        np.testing.assert_allclose(whole, mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(half, (began + mean) / 2, rtol=1e-5, atol=1e-6)


def test_between_meetings_the_replicas_differ_and_a_read_gives_their_mean(build: Any, regression: sd.Dataset) -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sync_every=4)
    model = build(strategy)
    model.fit(regression, epochs=1, steps_per_epoch=3, verbose=0)
    kernel = model.layers[0].kernel.simdist_variable
    first, second = (np.asarray(value) for value in strategy.local_results(kernel))
    assert np.abs(first - second).max() > 1e-6
    np.testing.assert_allclose(kernel.numpy(), (first + second) / 2, rtol=1e-6)


def test_an_evaluation_between_two_averages_is_of_the_model_that_would_be_saved(build: Any, regression: sd.Dataset) -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sync_every=4)
    model = build(strategy)
    model.fit(regression, epochs=1, steps_per_epoch=3, verbose=0)
    kernel = model.layers[0].kernel.simdist_variable
    before = [np.asarray(value) for value in strategy.local_results(kernel)]
    x = np.ones((4, 4), np.float32)
    alone = build(sd.OneDeviceStrategy())
    alone.set_weights(model.get_weights())
    np.testing.assert_allclose(model.predict(x, verbose=0), alone.predict(x, verbose=0), rtol=1e-6, atol=1e-6)
    found, expected = (one.evaluate(regression, verbose=0, return_dict=True)["loss"] for one in (model, alone))
    assert found == pytest.approx(expected, rel=1e-6)
    for value, own in zip(strategy.local_results(kernel), before, strict=True):
        np.testing.assert_array_equal(np.asarray(value), own)


def test_weights_that_are_assigned_are_where_the_next_way_begins(build: Any, regression: sd.Dataset) -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sync_every=2, outer_optimizer=keras.optimizers.SGD(0.5))
    model = build(strategy)
    model.fit(regression, epochs=1, steps_per_epoch=2, verbose=0)
    given = [np.full_like(weight, 5.0) for weight in model.get_weights()]
    model.set_weights(given)
    model.optimizer.learning_rate = 0.0
    model.fit(regression, epochs=1, steps_per_epoch=2, verbose=0)
    for weight, wanted in zip(model.get_weights(), given, strict=True):
        np.testing.assert_array_equal(weight, wanted)


@pytest.mark.parametrize(("options", "message"), [({"sync_every": 0}, "sync_every"), ({"outer_optimizer": "sgd"}, "outer_optimizer")])
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=message):
        sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), **options)


@pytest.mark.parametrize("every", [float("nan"), True, 1.5, "2"])
def test_number_of_local_steps_is_a_whole_number(every: Any) -> None:
    with pytest.raises(TypeError, match="sync_every"):
        sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sync_every=every)


def with_a_step(value: Any, **options: Any) -> tuple[Any, sd.Variable, Any]:
    """A strategy, a variable of half precision, and a step that moves it by the number of the replica."""
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sync_every=2, **options)
    with strategy.scope():
        weight, optimizer = sd.Variable(jnp.asarray(value, "float16")), sd.Optimizer(optax.sgd(1.0))

    def replica() -> None:
        rank = sd.get_replica_context().replica_id_in_sync_group
        optimizer.apply_gradients([(jnp.full_like(weight.value, -32.0 * rank), weight)])

    return strategy, weight, sd.function(lambda: strategy.run(replica))


def test_the_average_of_weights_whose_sum_does_not_fit_their_dtype() -> None:
    strategy, weight, step = with_a_step(40_000.0)
    for expected in (40_032.0, 40_064.0):  # the sum of the gradients is 32
        step()
        np.testing.assert_array_equal(weight.numpy(), np.float16(expected))
    assert {(float(value), str(value.dtype)) for value in strategy.local_results(weight)} == {(40_064.0, "float16")}


@pytest.mark.parametrize("outer", [None, 1.0])
def test_variables_that_no_optimizer_changes_have_no_average(outer: float | None) -> None:
    strategy, weight, step = with_a_step(1.0, outer_optimizer=None if outer is None else optax.sgd(outer))
    with strategy.scope():
        count, ready = sd.Variable(0), sd.Variable(True)

    def both() -> None:
        step.fn()
        strategy.run(lambda: count.assign_add(1))

    for number in range(1, 5):
        sd.function(both)()
        assert (count.numpy(), count.numpy().dtype) == (number, "int32")
        assert (ready.numpy(), ready.numpy().dtype) == (True, "bool")
    np.testing.assert_array_equal(weight.numpy(), np.float16(1 + 4 * 32))
    assert [int(value) for value in strategy.local_results(count)] == [4, 4]


@pytest.mark.parametrize("outer", [None, 0.7])
def test_all_variables_get_their_average_at_once(outer: float | None) -> None:
    def spans(count: int) -> int:
        cluster = sd.Cluster({"worker": 2})
        strategy = sd.MultiWorkerMirroredStrategy(cluster, sync_every=2, outer_optimizer=None if outer is None else optax.sgd(outer))
        with strategy.scope():
            weights = [sd.Variable(float(number)) for number in range(count)]
            optimizer = sd.Optimizer(optax.sgd(1.0))

        def replica() -> None:
            rank = sd.get_replica_context().replica_id_in_sync_group
            optimizer.apply_gradients([(jnp.full((), -1.0 - rank), weight) for weight in weights])

        step = sd.function(lambda: strategy.run(replica))
        for _ in range(2):
            step()
        moved = 6.0 if outer is None else 6.0 * outer  # two steps, and the sum of the gradients is 3
        assert [float(weight.numpy()) for weight in weights] == pytest.approx([number + moved for number in range(count)])
        return sum(span.lane == "worker:0" for span in cluster.trace.spans)

    assert spans(2) == spans(9)


def test_an_average_that_fails_comes_after_the_next_step() -> None:
    cluster = sd.Cluster({"worker": 2})
    strategy = sd.MultiWorkerMirroredStrategy(cluster, sd.CommunicationOptions(timeout_seconds=1.0), sync_every=3)
    with strategy.scope():
        v, optimizer = sd.Variable(0.0), sd.Optimizer(keras.optimizers.SGD(1.0))
    step = sd.function(lambda own: strategy.run(lambda g: optimizer.apply_gradients([(-g, v)]), args=(own,)))
    gradient = sd.PerReplica([1.0, 3.0])
    step(gradient)
    step(gradient)
    cluster.faults.partition("worker:0", ["worker:1"], at=cluster.now, until=cluster.now + 2.0)
    with pytest.raises(sd.errors.UnavailableError) as raised:
        step(gradient)
    assert "do not repeat that step" in raised.value.__notes__[-1]
    assert strategy.local_results(v) == (6.0, 18.0)  # it is taken, and each gradient counts for both replicas
    sd.sleep(3.0, cluster)
    step(gradient)
    assert strategy.local_results(v) == (16.0, 16.0)
    assert strategy.policy.state_dict() == {"steps": 3, "averages": 1}


@pytest.mark.parametrize(
    ("steps", "notes"), [(1.5, None), (2.5, ["It was the average of sync_every=2, after a step that all replicas had taken."])]
)
def test_a_death_promises_no_other_average(steps: float, notes: list[str] | None) -> None:
    cluster = sd.Cluster({"worker": 2})
    strategy = sd.MultiWorkerMirroredStrategy(cluster, sync_every=2)
    with strategy.scope():
        v, optimizer = sd.Variable(np.zeros(200_000, np.float32)), sd.Optimizer(optax.sgd(1.0))
    step = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(v.value, v)])))
    step()
    cluster.faults.crash("worker:1", at=steps * cluster.now)
    with pytest.raises(sd.errors.UnavailableError, match="left no mark") as raised:
        step()
    assert "on_failure" not in str(raised.value)  # which goes with sync_every=1 only
    assert getattr(raised.value, "__notes__", None) == notes


def test_mains_that_assign_values_of_their_own_agree_again() -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy(sync_every=2, outer_optimizer=optax.sgd(0.5))
        with strategy.scope():
            v, optimizer = sd.Variable(0.0), sd.Optimizer(optax.sgd(1.0))
        step = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(0.0, v)])))
        found: list[float] = []
        for number in range(6):
            if number == 3:
                v.assign(10.0 * strategy.worker_index)
            step()
            found.append(float(v.numpy()))
        return found

    run = sd.Cluster({"worker": 2}).launch(main)
    run.join()
    # Their mean is 5; from where the chief began, half of the way is taken.
    assert run.results == {"worker:0": [0, 0, 0, 2.5, 2.5, 2.5], "worker:1": [0, 0, 0, 2.5, 2.5, 2.5]}


def test_at_the_end_of_a_fit_all_mains_have_the_same_moving_averages(build: Any, regression: sd.Dataset) -> None:
    def train(strategy: Any) -> list[np.ndarray]:
        model = build(strategy, lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5))
        model.fit(regression, epochs=1, steps_per_epoch=2, verbose=0)
        return weights(model)

    options: dict[str, Any] = {"sync_every": 2, "outer_optimizer": optax.sgd(0.5)}
    run = sd.Cluster({"worker": 2}).launch(lambda: train(sd.MultiWorkerMirroredStrategy(**options)))
    run.join()
    expected = train(sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), **options))
    for found in run.results.values():
        for own, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "none"])
def test_a_replica_steps_by_the_gradient_of_its_own_mean_whoever_takes_it(reduction: str) -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sync_every=2)
    with strategy.scope():
        w, optimizer = sd.Variable(0.0), sd.Optimizer(keras.optimizers.SGD(0.1))
    squares = keras.losses.MeanSquaredError(reduction=reduction)

    def replica(y: Any) -> None:
        def loss() -> Any:
            found = squares(y, w * jnp.ones_like(y))
            return sd.compute_average_loss(found) if reduction == "none" else found

        _, gradients = sd.value_and_grad(loss, [w])()
        optimizer.apply_gradients(zip(gradients, [w], strict=True))

    y = np.arange(8, dtype=np.float32)[:, None]
    rows = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices(y).batch(8)))
    sd.function(lambda rows: strategy.run(replica, args=(next(rows),)))(rows)
    alone = [0.2 * part.mean() for part in np.split(y, 2)]
    assert w.numpy() == pytest.approx(np.mean(alone), rel=1e-6)
