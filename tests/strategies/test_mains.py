"""Several workers with a main of its own each: how they find each other, agree, wait, and fail (CONFORMANCE group B13)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras

Main = Callable[[], Any]


def launch(main: Main, workers: int = 2, restart: str = "never", faults: Callable[[sd.Cluster], Any] | None = None, **jobs: int) -> Any:
    cluster = sd.Cluster({**jobs, "worker": workers})
    if faults is not None:
        faults(cluster)
    run = cluster.launch(main, restart=restart)
    run.join()
    return run


def train(build: Any, dataset: sd.Dataset, epochs: int = 2, **options: Any) -> tuple[list[float], list[bytes]]:
    strategy = sd.MultiWorkerMirroredStrategy(**options)
    model = build(strategy)
    history = model.fit(dataset, epochs=epochs, verbose=0)
    return history.history["loss"], [weight.tobytes() for weight in model.get_weights()]


def test_all_workers_have_the_same_losses_and_weights_and_those_of_one_device(build: Any, regression: sd.Dataset) -> None:
    run = launch(lambda: train(build, regression), workers=3)
    assert run.results["worker:0"] == run.results["worker:1"] == run.results["worker:2"]
    model = build(sd.OneDeviceStrategy())
    expected = model.fit(regression, epochs=2, verbose=0).history["loss"]
    np.testing.assert_allclose(run.results["worker:0"][0], expected, rtol=2e-6)


def test_mains_and_one_notebook_give_the_same_bits(build: Any, regression: sd.Dataset) -> None:
    run = launch(lambda: train(build, regression), workers=2)
    model = build(sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})))
    model.fit(regression, epochs=2, verbose=0)
    assert run.results["worker:1"][1] == [weight.tobytes() for weight in model.get_weights()]


def test_b178_the_chief_is_the_first_worker_or_the_task_of_that_job() -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        return strategy.num_replicas_in_sync, strategy.worker_index, strategy.extended.should_checkpoint

    assert launch(main).results == {"worker:0": (2, 0, True), "worker:1": (2, 1, False)}
    cluster = sd.Cluster({"chief": 1, "worker": 1})
    runs = [cluster.launch(main, job=job) for job in ("chief", "worker")]
    for run in runs:
        run.join()
    assert runs[0].results == {"chief:0": (2, 0, True)}
    assert runs[1].results == {"worker:0": (2, 1, False)}


def test_b180_values_of_all_workers_are_combined() -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        mine = float(strategy.cluster_resolver.task_id + 1)
        with strategy.scope():
            summed = sd.Variable(5.0, aggregation=sd.VariableAggregation.SUM)
            counted = sd.Variable(0.0, synchronization=sd.VariableSynchronization.ON_READ, aggregation=sd.VariableAggregation.SUM)

        def replica() -> Any:
            context = sd.get_replica_context()
            summed.assign_add(jnp.float32(mine))
            counted.assign_add(jnp.float32(mine))
            return context.all_reduce("sum", jnp.float32(mine)), context.all_reduce("mean", jnp.float32(mine))

        total, mean = strategy.run(replica)
        return [float(strategy.local_results(value)[0]) for value in (total, mean)], float(summed.numpy()), float(counted.numpy())

    assert launch(main).results == {"worker:0": ([3.0, 1.5], 8.0, 3.0), "worker:1": ([3.0, 1.5], 8.0, 3.0)}


def test_b181_reduce_across_replicas_sums_over_workers_and_gather_joins_parts_of_other_lengths() -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        device = strategy.cluster_resolver.task_id
        total = strategy.reduce("sum", jnp.float32(device + 1), axis=None)
        return float(total), np.asarray(strategy.gather(jnp.arange(device + 1.0), axis=0)).tolist()

    assert set(map(str, launch(main, workers=3).results.values())) == {"(6.0, [0.0, 0.0, 1.0, 0.0, 1.0, 2.0])"}


def test_b182_each_worker_makes_its_dataset_from_its_context() -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        seen: list[Any] = []

        def dataset_fn(context: sd.InputContext) -> sd.Dataset:
            seen.append(
                (
                    context.num_input_pipelines,
                    context.input_pipeline_id,
                    context.num_replicas_in_sync,
                    context.get_per_replica_batch_size(8),
                )
            )
            return sd.Dataset.range(14).batch(4).shard(2, context.input_pipeline_id)

        parts = [strategy.local_results(element)[0].tolist() for element in strategy.distribute_datasets_from_function(dataset_fn)]
        return seen[0], parts

    results = launch(main).results
    assert results["worker:0"] == ((2, 0, 2, 4), [[0, 1, 2, 3], [8, 9, 10, 11]])
    assert results["worker:1"] == ((2, 1, 2, 4), [[4, 5, 6, 7], [12, 13]])


def test_tf_config_is_set_for_each_main() -> None:
    def main() -> Any:
        config = json.loads(os.environ["TF_CONFIG"])
        return config["task"], len(config["cluster"]["worker"])

    assert launch(main).results["worker:1"] == ({"type": "worker", "index": 1}, 2)


def test_b183_without_tf_config_it_is_one_worker(build: Any, regression: sd.Dataset) -> None:
    assert sd.MultiWorkerMirroredStrategy().num_replicas_in_sync == 1
    losses, _ = train(build, regression)
    assert losses[1] < losses[0]


# -- what goes wrong ----------------------------------------------------------------------------------------------------


def test_b184_a_dead_worker_fails_the_others(build: Any, regression: sd.Dataset) -> None:
    errors: dict[str, str] = {}

    def main() -> None:
        try:
            train(build, regression, epochs=4)
        except sd.errors.UnavailableError as error:
            errors[json.loads(os.environ["TF_CONFIG"])["task"]["index"]] = str(error)
            raise

    with pytest.raises(sd.errors.UnavailableError, match="worker:1"):
        launch(main, workers=3, faults=lambda cluster: cluster.faults.crash("worker:1", after_steps=6))
    assert set(errors) <= {0, 2}


def test_restart_always_starts_the_job_again_and_it_gives_what_it_gives_without_the_crash(build: Any, regression: sd.Dataset) -> None:
    whole = launch(lambda: train(build, regression, epochs=3), workers=3)
    again = launch(
        lambda: train(build, regression, epochs=3),
        workers=3,
        restart="always",
        faults=lambda cluster: cluster.faults.crash("worker:1", after_steps=6, restart_after=2.0),
    )
    assert again.results == whole.results
    assert set(again.restarts.values()) == {1}


def test_b103_a_time_out_names_who_is_missing_and_is_over_after_so_many_seconds() -> None:
    cluster = sd.Cluster({"worker": 3})

    def main() -> None:
        strategy = sd.MultiWorkerMirroredStrategy(communication_options=sd.CommunicationOptions(timeout_seconds=15.0))
        if strategy.cluster_resolver.task_id == 1:
            cluster.world.clock.sleep(100.0)
        strategy.run(lambda: sd.get_replica_context().all_reduce("sum", jnp.float32(1.0)))

    with pytest.raises(sd.errors.DeadlineExceededError, match="worker:1"):
        cluster.launch(main).join()
    assert cluster.now == pytest.approx(15.0, abs=1e-3)


def test_b104_an_error_of_one_collective_stays_with_it() -> None:
    cluster = sd.Cluster({"worker": 2})

    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy(communication_options=sd.CommunicationOptions(timeout_seconds=1.0))
        late = strategy.cluster_resolver.task_id == 1
        caught = None
        if late:
            cluster.world.clock.sleep(5.0)
        try:
            strategy.run(lambda: sd.get_replica_context().all_reduce("sum", jnp.float32(1.0)))
        except sd.errors.DeadlineExceededError as error:
            caught = type(error).__name__
        if not late:
            cluster.world.clock.sleep(5.0 - cluster.now)
        value = strategy.run(lambda: sd.get_replica_context().all_reduce("sum", jnp.float32(2.0)))
        return caught, float(strategy.local_results(value)[0])

    run = cluster.launch(main)
    run.join()
    assert run.results == {"worker:0": ("DeadlineExceededError", 4.0), "worker:1": ("DeadlineExceededError", 4.0)}


def test_one_worker_with_another_model_is_named_at_once() -> None:
    def main() -> None:
        strategy = sd.MultiWorkerMirroredStrategy()
        units = 3 if strategy.cluster_resolver.task_id else 2
        with strategy.scope():
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(units)])
            model.compile("sgd", "mse")
        model.fit(np.ones((8, 4), np.float32), np.ones((8, units), np.float32), batch_size=8, verbose=0)

    with pytest.raises(sd.errors.InvalidArgumentError, match=r"worker:0.*worker:1"):
        launch(main)


def test_a_worker_that_takes_fewer_steps_does_not_leave_the_others_waiting(build: Any, regression: sd.Dataset) -> None:
    def main() -> Any:
        device = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
        return train(build, regression, epochs=1 + (device == 0))

    with pytest.raises(sd.errors.UnavailableError, match="worker:1 has ended"):
        launch(main)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sd.MultiWorkerMirroredStrategy("worker"), "Cluster"),
        (lambda: sd.MultiWorkerMirroredStrategy(communication_options="RING"), "communication_options"),
        (lambda: sd.MultiWorkerMirroredStrategy(sd.SimpleClusterResolver(sd.ClusterSpec({"worker": 2}))), "which of them this is"),
        (lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), devices_per_worker=0), "devices_per_worker"),
        (lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), on_failure="ignore"), "on_failure"),
    ],
)
def test_b183_wrong_arguments_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=message):
        make()


def test_b183_a_resolver_of_several_workers_outside_of_launched_mains_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(sd.errors.FailedPreconditionError, match=r"2 workers.*cluster\.launch"):
        sd.MultiWorkerMirroredStrategy()
    # One worker is this program itself.
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}))
    assert sd.MultiWorkerMirroredStrategy().num_replicas_in_sync == 1


def test_gather_of_different_lengths_in_a_step_says_where_it_works() -> None:
    def main(gather: Callable[[Any, Any], Any]) -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        value = jnp.arange(1.0 + strategy.worker_index)
        return np.asarray(gather(strategy, value)).tolist()

    def in_a_step(strategy: Any, value: Any) -> Any:
        return strategy.run(lambda x: sd.get_replica_context().all_gather(x, axis=0), args=(value,))

    with pytest.raises(sd.errors.InvalidArgumentError, match=r"use strategy\.gather, which joins different lengths"):
        launch(lambda: main(in_a_step))
    run = launch(lambda: main(lambda strategy, value: strategy.gather(strategy.run(lambda x: x, args=(value,)), axis=0)))
    assert run.results["worker:0"] == run.results["worker:1"] == [0.0, 0.0, 1.0]


def gathered_by_mains(lengths: Sequence[int]) -> list[list[float]]:
    """What each of two mains with two devices joins, of values that have these lengths and are the ranks of their replicas."""

    def main() -> list[float]:
        strategy = sd.MultiWorkerMirroredStrategy(devices_per_worker=2)
        values = strategy.experimental_distribute_values_from_function(
            lambda context: np.full(lengths[context.replica_id_in_sync_group], context.replica_id_in_sync_group, np.float32)
        )
        joined = strategy.run(lambda x: sd.get_replica_context().all_gather(x, axis=0), args=(values,))
        return np.asarray(strategy.experimental_local_results(joined)[1]).tolist()

    return list(launch(main).results.values())


def test_mains_gather_in_a_step_where_their_devices_have_the_same_lengths_in_the_same_order() -> None:
    assert gathered_by_mains((1, 3, 1, 3)) == [[0, 1, 1, 1, 2, 3, 3, 3]] * 2


@pytest.mark.parametrize("lengths", [(1, 3, 3, 1), (1, 3, 1, 2)])
def test_mains_whose_devices_have_other_lengths_are_told_which(lengths: Sequence[int]) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"float32\[1\].*but worker:1/gpu:0 to .*use strategy\.gather") as caught:
        gathered_by_mains(lengths)
    assert lengths[2] != lengths[0] or "[1], [3], [1], [3], but worker:1/gpu:0 to all_gather of float32[1] into [1], [2]" in str(
        caught.value
    )


def test_mains_train_without_numbers() -> None:
    def main() -> float:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            v = sd.Variable(np.ones(3, np.float32))
            optimizer = sd.Optimizer(optax.sgd(0.1, momentum=0.9))

        @sd.function
        def step() -> None:
            def replica() -> None:
                _, gradients = sd.value_and_grad(lambda: (v.value**2).sum(), [v])()
                optimizer.apply_gradients(zip(gradients, [v], strict=True))

            strategy.run(replica)

        for _ in range(3):
            step()
        return strategy.cluster.now

    found = []
    for numerics in ("deferred", "off"):
        run = sd.Cluster({"worker": 2}, numerics=numerics).launch(main)
        run.join()
        found.append(run.results)
    assert found[0] == found[1]


@pytest.mark.parametrize("other_returns_s", [0.0, 0.8], ids=["before it starts again", "while it waits for the others"])
def test_a_main_that_starts_again_and_that_the_others_do_not_wait_for_is_told_so(other_returns_s: float) -> None:
    def main() -> None:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            v = sd.Variable(np.ones(3, np.float32), aggregation=sd.VariableAggregation.SUM)
        sd.function(lambda: strategy.run(lambda: v.assign_add(np.ones(3, np.float32))))()
        sd.sleep(1.0 if strategy.cluster_resolver.task_id == 1 else other_returns_s)

    cluster = sd.Cluster({"worker": 2})
    cluster.faults.crash("worker:1", at=0.5, restart_after=0.1)
    run = cluster.launch(main, restart="always")
    with pytest.raises(sd.errors.UnavailableError, match=r"worker:1 has no partner in its collectives: the main of worker:0 returned"):
        run.join()
    assert set(run.results) == {"worker:0"}


def test_a_main_that_returns_without_a_strategy_is_not_waited_for() -> None:
    def main() -> None:
        if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
            return sd.sleep(1.0)
        strategy = sd.MultiWorkerMirroredStrategy()
        strategy.run(lambda: sd.get_replica_context().all_reduce("sum", jnp.ones(3)))

    run = sd.Cluster({"worker": 2}).launch(main)
    with pytest.raises(sd.errors.UnavailableError, match=r"worker:0 has no partner .* the main of worker:1 returned without taking part"):
        run.join()


def test_a_main_of_another_run_that_returns_is_none_that_is_waited_for() -> None:
    def main() -> None:
        sd.sleep(1.0 * json.loads(os.environ["TF_CONFIG"])["task"]["index"])
        strategy = sd.MultiWorkerMirroredStrategy()
        strategy.run(lambda: sd.get_replica_context().all_reduce("sum", jnp.ones(3)))

    cluster = sd.Cluster({"worker": 2})
    runs = [cluster.launch(main), cluster.launch(lambda: sd.sleep(0.5))]
    for run in runs:
        run.join()


# -- the strategy of those who have chosen none ---------------------------------------------------------------------------


def test_mains_without_a_strategy_have_a_default_one_of_their_own_task_that_nobody_else_gets() -> None:
    cluster = sd.Cluster({"worker": 2})
    found: list[Any] = []

    def main() -> None:
        found.append(sd.get_strategy())
        assert sd.get_strategy() is found[-1] and not sd.has_strategy()
        sd.function(lambda: None)()

    cluster.launch(main).join()
    cluster.close()
    assert [strategy.default_device for strategy in found] == ["worker:0", "worker:1"]
    assert sd.get_strategy() not in found
    sd.function(lambda: None)()  # on a cluster of this program's own, not on one that is closed


def test_a_main_that_stood_still_goes_on_with_its_own_replica_and_knows_of_nothing() -> None:
    def main() -> int:
        step = sd.function(lambda: None)
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            for _ in range(3):
                step()
                sd.sleep(1.0)
        return 3

    run = launch(main, workers=1, faults=lambda cluster: cluster.faults.pause("worker:0", at=0.5, until=20.0))
    assert run.results == {"worker:0": 3}
