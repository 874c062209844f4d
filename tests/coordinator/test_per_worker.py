"""Per-worker values: each worker makes its own, once for each incarnation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import ClosureInputError, FailedPreconditionError, InvalidArgumentError, UnavailableError


@pytest.fixture
def cluster() -> sd.Cluster:
    return sd.Cluster({"worker": 2, "ps": 1})


@pytest.fixture
def coordinator(cluster: sd.Cluster) -> sd.ClusterCoordinator:
    return sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))


def test_a_resource_is_made_once_on_each_worker_and_again_after_a_restart(cluster: sd.Cluster, coordinator: sd.ClusterCoordinator) -> None:
    resource = coordinator.create_per_worker_resource(lambda: {"uses": 0})

    def use(own: dict[str, int]) -> int:
        own["uses"] += 1
        sd.sleep(1.0)
        return own["uses"]

    def uses(times: int) -> list[int]:
        return [value.fetch() for value in [coordinator.schedule(use, args=(resource,)) for _ in range(times)]]

    assert uses(4) == [1, 1, 2, 2]
    cluster.faults.crash("worker:1", at=cluster.now + 0.5, restart_after=0.1)
    assert sorted(uses(2)) == [1, 3]


@pytest.mark.parametrize("devices", [1, 2])
def test_a_step_takes_resources_apart(devices: int, cluster: sd.Cluster) -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster, devices_per_worker=devices))
    resource = coordinator.create_per_worker_resource(lambda: {"rows": [np.float32([1, 2]), (np.float32(3), None)], "scale": 2.0})
    step = sd.function(lambda own, more: {"scaled": own["rows"][0] * own["scale"] + more, "rest": own["rows"][1]})
    for more in (1.0, 2.0, 2.0):
        value = coordinator.schedule(step, args=(resource, np.float32(more))).fetch()
        assert value["scaled"].tolist() == [2 + more, 4 + more] and value["rest"] == (3.0, None)


@pytest.mark.parametrize("devices", [1, 2])
def test_a_step_takes_what_a_resource_contains_now(devices: int) -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), devices_per_worker=devices))
    resource = coordinator.create_per_worker_resource(lambda: {"scale": 2.0})
    read = sd.function(lambda own: own["scale"])
    assert [coordinator.schedule(read, args=(resource,)).fetch() for _ in range(2)] == [2.0, 2.0]
    coordinator.schedule(lambda own: own.update(scale=5.0), args=(resource,))
    assert coordinator.schedule(read, args=(resource,)).fetch() == 5.0


def test_a_resource_must_be_made_by_a_function(coordinator: sd.ClusterCoordinator) -> None:
    with pytest.raises(TypeError, match="takes a function without arguments; got dict"):
        coordinator.create_per_worker_resource({})  # pyright: ignore[reportArgumentType]


def pipeline_numbers(context: Any) -> sd.Dataset:
    return sd.Dataset.from_tensor_slices(np.full(4, context.input_pipeline_id)).batch(2)


SOURCES: dict[str, Any] = {
    "dataset": (lambda _: sd.Dataset.range(4).batch(2), {1}),
    "function": (lambda _: lambda: sd.Dataset.range(4).batch(2), {1}),
    "distributed": (lambda strategy: strategy.distribute_datasets_from_function(pipeline_numbers), {0, 2}),
    "function of a distributed": (lambda strategy: lambda: strategy.distribute_datasets_from_function(pipeline_numbers), {0, 2}),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_a_dataset_comes_from_itself_a_function_or_a_distributed_one(kind: str, coordinator: sd.ClusterCoordinator) -> None:
    make, first_sums = SOURCES[kind]
    iterator = iter(coordinator.create_per_worker_dataset(make(coordinator.strategy)))
    step = sd.function(lambda iterator: next(iterator).sum(), seconds=1.0)
    sums = {int(value.fetch()) for value in [coordinator.schedule(step, args=(iterator,)) for _ in range(2)]}
    assert sums == first_sums


@pytest.mark.parametrize("source", [[1, 2], None, np.zeros(3)], ids=["list", "None", "array"])
def test_what_is_no_dataset_is_refused_at_once(source: Any, coordinator: sd.ClusterCoordinator) -> None:
    with pytest.raises(InvalidArgumentError, match=f"Unexpected dataset type: {type(source).__name__}"):
        coordinator.create_per_worker_dataset(source)


def test_a_function_that_returns_no_dataset_fails_its_closure(coordinator: sd.ClusterCoordinator) -> None:
    iterator = iter(coordinator.create_per_worker_dataset(lambda: [1, 2]))
    coordinator.schedule(sd.function(lambda iterator: next(iterator)), args=(iterator,))
    with pytest.raises(InvalidArgumentError, match=r"must be an sd\.Dataset; the function returned list"):
        coordinator.join()


def test_an_iterator_gives_elements_on_workers_only(coordinator: sd.ClusterCoordinator) -> None:
    iterator = iter(coordinator.create_per_worker_dataset(sd.Dataset.range(4).batch(2)))
    assert iter(iterator) is iterator
    with pytest.raises(FailedPreconditionError, match="its elements live on the workers"):
        next(iterator)


# -- what cannot be made ------------------------------------------------------------------------------------------------


def test_closures_that_need_a_resource_which_cannot_be_made_say_so_and_others_go_on(coordinator: sd.ClusterCoordinator) -> None:
    resource = coordinator.create_per_worker_resource(lambda: {}["missing"])
    assert coordinator.schedule(lambda: 7).fetch() == 7
    coordinator.join()
    value = coordinator.schedule(lambda own: own, args=(resource,))
    with pytest.raises(ClosureInputError, match=r"worker:\d could not make its resource: KeyError: 'missing'") as caught:
        coordinator.join()
    assert isinstance(caught.value.__cause__, KeyError)
    for _ in range(2):
        with pytest.raises(ClosureInputError):
            value.fetch()
    coordinator.join()
    assert coordinator.schedule(lambda: 7).fetch() == 7


def test_what_could_not_be_made_is_made_when_it_can(coordinator: sd.ClusterCoordinator) -> None:
    there: list[str] = []
    resource = coordinator.create_per_worker_resource(lambda: there[0])
    coordinator.schedule(str.upper, args=(resource,))
    with pytest.raises(ClosureInputError, match="IndexError"):
        coordinator.join()
    there.append("file")
    assert coordinator.schedule(str.upper, args=(resource,)).fetch() == "FILE"


def test_a_task_that_is_gone_while_a_resource_is_made_is_the_error_itself(coordinator: sd.ClusterCoordinator) -> None:
    def lost() -> None:
        raise UnavailableError("ps:0 is down")

    coordinator.schedule(print, args=(coordinator.create_per_worker_resource(lost),))
    with pytest.raises(UnavailableError, match="ps:0 is down"):
        coordinator.join()


@pytest.mark.parametrize("engine", ["simulated", "in_process"])
def test_a_function_of_a_dataset_makes_no_variable(engine: str) -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}, engine=engine)))

    def dataset() -> sd.Dataset:
        sd.Variable(0.0, name="inside")
        return sd.Dataset.range(4).batch(2)

    coordinator.schedule(sd.function(lambda iterator: next(iterator)), args=(iter(coordinator.create_per_worker_dataset(dataset)),))
    with pytest.raises(ClosureInputError, match="'inside' was made while worker:0 made its dataset"):
        coordinator.join()
    assert coordinator.strategy.variables == []
    made = coordinator.create_per_worker_resource(lambda: sd.Variable(3.0))
    assert float(coordinator.schedule(sd.function(lambda own: own.value), args=(made,)).fetch()) == 3.0


def test_a_dataset_is_not_begun_anew_in_a_step(coordinator: sd.ClusterCoordinator) -> None:
    dataset = coordinator.create_per_worker_dataset(sd.Dataset.range(4).batch(2))
    coordinator.schedule(sd.function(lambda: next(iter(dataset))))
    with pytest.raises(FailedPreconditionError, match=r"iter\(\) was called on a per-worker dataset in a step"):
        coordinator.join()


def test_the_function_of_a_dataset_may_be_decorated_as_in_tensorflow_and_is_never_traced(coordinator: sd.ClusterCoordinator) -> None:
    @sd.function
    def rows() -> sd.Dataset:
        return coordinator.strategy.distribute_datasets_from_function(lambda context: sd.Dataset.range(4).batch(2))

    iterator = iter(coordinator.create_per_worker_dataset(rows))
    step = sd.function(lambda iterator: next(iterator).sum())
    assert [int(coordinator.schedule(step, args=(iterator,)).fetch()) for _ in range(3)] == [1, 1, 5]  # of worker:0, of worker:1
    assert rows.traces == 0
    with pytest.raises(InvalidArgumentError, match="is no step"):
        coordinator.create_per_worker_dataset(sd.function(lambda: sd.Dataset.range(4), seconds=1.0))


@pytest.mark.parametrize("resume", [True, False])
def test_a_worker_that_joins_takes_over_the_shard_of_one_that_has_left(resume: bool) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1}), mode="sync")
    with strategy.scope():
        seen = sd.Variable(np.zeros(9, np.float32))
    coordinator = sd.ClusterCoordinator(strategy)

    def shard(context: sd.InputContext) -> sd.Dataset:
        rows = sd.Dataset.range(9).shard(context.num_input_pipelines, context.input_pipeline_id)
        return rows.batch(1).repeat()

    dataset = coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(shard), resume=resume)
    iterator = iter(dataset)

    @sd.function
    def step(iterator: Any) -> None:
        seen.assign_add((np.arange(9) == next(iterator)).astype("float32"))

    def rounds(count: int) -> list[float]:
        for _ in range(3 * count):
            coordinator.schedule(step, args=(iterator,))
        coordinator.join()
        return seen.numpy().tolist()

    rounds(1)
    coordinator.remove_worker("worker:1")
    coordinator.add_worker()
    sd.sleep(10.0)
    assert rounds(2) == ([1.0] * 9 if resume else [1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0])
    coordinator.remove_worker("worker:3")
    coordinator.add_worker()
    sd.sleep(10.0)
    again = rounds(3)
    assert again == [2.0] * 9 if resume else again[1::3] == [3.0, 2.0, 1.0]


def test_a_value_of_the_workers_of_another_strategy_is_refused(coordinator: sd.ClusterCoordinator) -> None:
    other = sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 4, "ps": 1})))
    dataset = other.create_per_worker_dataset(lambda: sd.Dataset.range(4))
    for value in (dataset, iter(dataset), other.create_per_worker_resource(dict)):
        with pytest.raises(InvalidArgumentError, match=f"per-worker {value.name} of another strategy"):
            coordinator.schedule(lambda own: None, args=(value,))
    coordinator.join()
    assert coordinator.done()
