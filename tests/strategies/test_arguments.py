"""What is passed to strategies and steps: it is taken as it is meant, or refused with what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError


def nested(levels: int) -> Any:
    value: Any = 1.0
    for _ in range(levels):
        value = (value,)
    return value


@pytest.fixture
def two() -> sd.MirroredStrategy:
    return sd.MirroredStrategy(2)


@pytest.fixture
def coordinator() -> Iterator[sd.ClusterCoordinator]:
    with sd.Cluster({"worker": 2, "ps": 1}) as cluster:
        yield sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))


Use = Callable[[Any, Any], Any]
USES: dict[str, Use] = {
    "run": lambda strategy, deep: strategy.run(lambda x: x, args=(deep,)),
    "kwargs": lambda strategy, deep: strategy.run(lambda x: x, kwargs={"x": deep}),
    "result": lambda strategy, deep: strategy.run(lambda: deep),
    "step": lambda _, deep: sd.function(lambda x: 1)(deep),
    "result of a step": lambda _, deep: sd.function(lambda: deep)(),
    "reduce": lambda strategy, deep: strategy.reduce("sum", deep, None),
    "gather": lambda strategy, deep: strategy.gather(deep, 0),
    "local results": lambda strategy, deep: strategy.local_results(deep),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_structure_nested_thousands_deep_is_refused_and_does_no_harm(use: Use, two: sd.MirroredStrategy) -> None:
    with pytest.raises(InvalidArgumentError, match="nested more than"):
        use(two, nested(5_000))
    # What JAX does with such a structure leaves the interpreter without stack; nothing of that may be felt.
    assert float(two.reduce("mean", two.run(lambda x: x[0][0], args=(nested(2),)), None)) == 1.0


def test_structure_nested_thousands_deep_is_refused_by_schedule(coordinator: sd.ClusterCoordinator) -> None:
    with pytest.raises(InvalidArgumentError, match="nested more than"):
        coordinator.schedule(lambda x: x, args=(nested(5_000),))
    assert coordinator.schedule(lambda x: x[0], args=(nested(1),)).fetch() == 1.0


@pytest.mark.parametrize("strategy", [sd.MultiWorkerMirroredStrategy, sd.ParameterServerStrategy])
def test_cluster_has_the_name_that_tensorflow_gives_its_resolver(strategy: Any) -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    assert strategy(cluster_resolver=cluster.resolver).cluster is cluster
    assert strategy(cluster_resolver=cluster).cluster is cluster


def test_arguments_of_a_coordinator_have_the_names_of_tensorflow(coordinator: sd.ClusterCoordinator) -> None:
    iterator = iter(coordinator.create_per_worker_dataset(dataset_fn=lambda: sd.Dataset.range(4).batch(4)))
    taken = coordinator.schedule(fn=sd.function(lambda iterator: next(iterator).sum()), args=(iterator,), kwargs=None)
    assert coordinator.fetch(val=[taken, "text"]) == [6, "text"]


def test_variable_of_an_update_has_the_name_of_tensorflow(two: sd.MirroredStrategy) -> None:
    with two.scope():
        v = sd.Variable(1.0)
    two.extended.update(var=v, fn=lambda copy, value: copy.assign(value), args=(4.0,))
    assert v.numpy() == 4.0


@pytest.mark.parametrize(("arguments", "remedy"), [({"args": 1.0}, r"args=\(x,\)"), ({"kwargs": [1.0]}, r"kwargs=\{'x': x\}")])
def test_arguments_that_are_no_list_say_how_to_write_them(
    arguments: dict[str, Any], remedy: str, two: sd.MirroredStrategy, coordinator: sd.ClusterCoordinator
) -> None:
    for call in (two.run, coordinator.schedule):
        with pytest.raises(InvalidArgumentError, match=remedy):
            call(lambda x: x, **arguments)


def test_strings_in_a_batch_of_a_step_say_to_look_them_up_before(two: sd.MirroredStrategy) -> None:
    dataset = sd.Dataset.from_tensor_slices((["a", "b"], [1, 2])).batch(2)
    with pytest.raises(InvalidArgumentError, match=r"holds strings.*dataset\.map"):
        sd.function(lambda iterator: next(iterator)[1])(iter(dataset))
    step = sd.function(lambda iterator: two.run(lambda words, numbers: numbers, args=next(iterator)))
    with pytest.raises(InvalidArgumentError, match=r"holds strings.*dataset\.map"):
        step(iter(two.distribute_dataset(dataset)))
    with pytest.raises(InvalidArgumentError, match="an argument of <lambda> holds strings"):
        sd.function(lambda words: 1)(np.array(["a"]))


@pytest.mark.parametrize("axis", ["0", True, 1.0, (0, 0), (0, 1.5)], ids=str)
def test_axis_of_reduce_is_a_whole_number_or_several(axis: Any, two: sd.MirroredStrategy) -> None:
    with pytest.raises((TypeError, InvalidArgumentError), match="axis"):
        two.reduce("sum", sd.PerReplica([np.ones((2, 3)), np.ones((2, 3))]), axis)


@pytest.mark.parametrize("axis", [None, "0", True, (0, 1)], ids=str)
def test_axis_of_gather_is_one_whole_number(axis: Any, two: sd.MirroredStrategy) -> None:
    with pytest.raises(TypeError, match="axis"):
        two.gather(sd.PerReplica([np.ones((2, 3)), np.ones((2, 3))]), axis)
    with pytest.raises(TypeError, match="axis"):
        two.run(lambda: sd.get_replica_context().all_gather(np.ones(2), axis))


Options = sd.CommunicationOptions
MEANINGLESS: dict[str, Callable[[], Any]] = {
    "run options": lambda: sd.MirroredStrategy(2).run(lambda: 1, options="fast"),
    "input options": lambda: sd.MirroredStrategy(2).distribute_dataset(sd.Dataset.range(4).batch(2), options=3),
    "stay on host": lambda: sd.InputOptions(experimental_fetch_to_device=False),
    "input mode": lambda: sd.InputOptions(experimental_replication_mode="PER_DEVICE"),  # pyright: ignore[reportArgumentType]
    "pipeline on device": lambda: sd.MirroredStrategy(2).distribute_datasets_from_function(
        lambda context: sd.Dataset.range(4).batch(2),
        sd.InputOptions(experimental_place_dataset_on_device=True, experimental_replication_mode=sd.InputReplicationMode.PER_REPLICA),
    ),
    "pack of a half": lambda: Options(bytes_per_pack=1.5),  # pyright: ignore[reportArgumentType]
    "no pack": lambda: Options(num_packs=0),
    "NaN pack": lambda: Options(bytes_per_pack=float("nan")),  # pyright: ignore[reportArgumentType]
    "time-out of True": lambda: Options(timeout_seconds=True),
    "time-out without end": lambda: Options(timeout_seconds=float("inf")),
    "two ways to pack": lambda: Options(bytes_per_pack=8, num_packs=2),
    "packs of a call": lambda: sd.MirroredStrategy(2).run(
        lambda: sd.get_replica_context().all_reduce("sum", np.ones(2), Options(num_packs=2))
    ),
    "options of a call": lambda: sd.MirroredStrategy(2).run(lambda: sd.get_replica_context().all_reduce("sum", np.ones(2), "RING")),
    "packs of local steps": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), Options(num_packs=2), sync_every=2),
    "packs of True": lambda: sd.NcclAllReduce(True),
    "reduce elsewhere": lambda: sd.ReductionToOneDevice("gpu:1"),
    "add otherwise": lambda: sd.ReductionToOneDevice(accumulation_fn=max),
    "assignment of TPU cores": lambda: sd.TPUStrategy(experimental_device_assignment=[0]),
    "cluster": lambda: sd.MirroredStrategy(cluster=3),  # pyright: ignore[reportArgumentType]
    "devices in no order": lambda: sd.MirroredStrategy({"gpu:0", "gpu:1"}),  # pyright: ignore[reportArgumentType]
    "partitioner": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), variable_partitioner=3),
    "seconds of True": lambda: sd.function(lambda: 1, seconds=True),
    "gradient of a number": lambda: sd.value_and_grad(3, []),  # pyright: ignore[reportArgumentType]
    "scheme": lambda: sd.SimpleClusterResolver(sd.ClusterSpec({"worker": 1}), rpc_layer=3),  # pyright: ignore[reportArgumentType]
}


@pytest.mark.parametrize("use", MEANINGLESS.values(), ids=MEANINGLESS.keys())
def test_what_would_be_ignored_is_refused(use: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, InvalidArgumentError)):
        use()


def test_input_mode_may_be_its_name() -> None:
    options = sd.InputOptions(experimental_replication_mode="PER_REPLICA")  # pyright: ignore[reportArgumentType]
    assert options.experimental_replication_mode is sd.InputReplicationMode.PER_REPLICA


def test_an_implementation_in_the_place_of_the_cluster_says_where_it_belongs() -> None:
    with pytest.raises(InvalidArgumentError, match=r"sd\.CommunicationOptions\(implementation=sd\.CommunicationImplementation\.NCCL\)"):
        sd.MultiWorkerMirroredStrategy(sd.CommunicationImplementation.NCCL)  # pyright: ignore[reportArgumentType]


HELPFUL: dict[str, tuple[Callable[[], Any], str]] = {
    "array": (lambda: sd.MirroredStrategy(2).distribute_dataset(np.ones((4, 2))), r"got ndarray\..*from_tensor_slices"),
    "pair": (lambda: sd.MirroredStrategy(2).distribute_dataset((np.ones((4, 2)), np.ones(4))), r"got tuple\..*from_tensor_slices"),
    "array at servers": (
        lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})).distribute_dataset(np.ones(4)),  # pyright: ignore[reportArgumentType]
        r"got ndarray\..*from_tensor_slices",
    ),
    "class of partitioners": (
        lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), sd.MinSizePartitioner),
        r"MinSizePartitioner.*expected for example sd\.FixedShardsPartitioner\(2\)",
    ),
    "digits": (lambda: sd.MirroredStrategy("4"), "write devices=4"),  # pyright: ignore[reportArgumentType]
    "a name": (lambda: sd.MirroredStrategy("gpu:0"), r"write \['gpu:0'\]"),  # pyright: ignore[reportArgumentType]
    "no context": (lambda: sd.DatasetCreator(lambda: sd.Dataset.range(3)), "takes an InputContext"),  # type: ignore[arg-type, misc]
}


@pytest.mark.parametrize(("use", "says"), HELPFUL.values(), ids=HELPFUL.keys())
def test_what_is_mistaken_for_something_else_is_refused_with_what_to_write(use: Callable[[], Any], says: str) -> None:
    with pytest.raises((TypeError, InvalidArgumentError), match=says):
        use()


def test_a_list_of_batches_is_distributed() -> None:
    batches = [np.arange(4.0), np.arange(2.0)]
    elements = sd.MirroredStrategy(2).distribute_dataset(batches)
    assert [[part.tolist() for part in element.values] for element in elements] == [[[0, 1], [2, 3]], [[0], [1]]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: sd.MirroredStrategy(devices=10**9),
        lambda: sd.CentralStorageStrategy(10**9),
        lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), devices_per_worker=10**9),
        lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), devices_per_worker=10**9),
    ],
)
def test_more_devices_than_memory_holds_are_refused_before_one_is_made(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgumentError, match="=1000000000 is more than 100,000"):
        make()


def test_more_replicas_on_all_workers_than_memory_holds_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="devices_per_worker=100000 on each of 300 workers are more than 1,000,000 replicas"):
        sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 300}), devices_per_worker=100_000)
