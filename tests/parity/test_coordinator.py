"""Conformance cases B141 to B165: the coordinator, its remote values and per-worker values."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist.errors import CancelledError, ClosureInputError, FailedPreconditionError, InvalidArgumentError, OutOfRangeError

MESSAGE_S = 0.01  # more than the messages of a closure without bytes take


@pytest.fixture
def cluster() -> sd.Cluster:
    return sd.Cluster({"worker": 2, "ps": 2})


@pytest.fixture
def coordinator(cluster: sd.Cluster) -> sd.ClusterCoordinator:
    return sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))


def failing(error: Exception, after_s: float = 0.0) -> Callable[[], Any]:
    def closure() -> None:
        sd.sleep(after_s)
        raise error

    return closure


def rows_of(count: int) -> Callable[[], sd.Dataset]:
    return lambda: sd.Dataset.range(count).batch(1)


def row(iterator: Any) -> int:
    return int(next(iterator)[0])


# -- one coordinator, schedule and its values ---------------------------------------------------------------------------


def test_b141_a_strategy_has_one_coordinator(coordinator: sd.ClusterCoordinator) -> None:
    assert sd.ClusterCoordinator(coordinator.strategy) is coordinator


def test_b141_another_strategy_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="needs a ParameterServerStrategy; got MirroredStrategy"):
        sd.ClusterCoordinator(sd.MirroredStrategy(2))


def test_b142_schedule_returns_at_once(cluster: sd.Cluster, coordinator: sd.ClusterCoordinator) -> None:
    values = [coordinator.schedule(lambda: sd.sleep(1.0)) for _ in range(10)]
    assert cluster.now == 0.0 and {value.state for value in values} == {"pending"}


@pytest.mark.parametrize("given", [3, None, "step"])
def test_b142_what_is_no_function_is_a_type_error_of_schedule(given: Any, coordinator: sd.ClusterCoordinator) -> None:
    with pytest.raises(TypeError, match="schedule takes a function"):
        coordinator.schedule(given)
    assert coordinator.scheduled == 0


def test_b142_an_error_while_tracing_is_that_of_the_closure(coordinator: sd.ClusterCoordinator) -> None:
    value = coordinator.schedule(sd.function(lambda: jnp.zeros(2) + jnp.zeros(3)))
    with pytest.raises(TypeError, match="incompatible shapes"):
        coordinator.join()
    with pytest.raises(TypeError, match="incompatible shapes"):
        value.fetch()


@pytest.mark.parametrize("nest", [lambda v: (v,), lambda v: ([{"a": v}],), lambda v: (v["part"],)], ids=["flat", "nested", "part"])
def test_b143_a_remote_value_in_the_arguments_is_a_value_error(nest: Any, coordinator: sd.ClusterCoordinator) -> None:
    value = coordinator.schedule(lambda: 1)
    with pytest.raises(ValueError, match="Fetch it first"):
        coordinator.schedule(print, args=nest(value))
    with pytest.raises(ValueError, match="Fetch it first"):
        coordinator.schedule(print, kwargs={"x": nest(value)})


def test_b144_a_nested_result_has_parts(coordinator: sd.ClusterCoordinator) -> None:
    value = coordinator.schedule(sd.function(lambda x: {"a": x, "b": (x + 1.0, [x + 2.0])}), args=(np.float32(1.0),))
    parts = {"a": value["a"], "b": (value["b"][0], [value["b"][1][0]])}
    assert coordinator.fetch(parts) == coordinator.fetch(value) == {"a": 1.0, "b": (2.0, [3.0])}


@pytest.mark.parametrize("function", [lambda: None, sd.function(lambda: None)], ids=["plain", "traced"])
def test_b144_a_function_that_returns_none_gives_none(function: Any, coordinator: sd.ClusterCoordinator) -> None:
    assert coordinator.schedule(function).fetch() is None


def test_b145_fetch_gives_numpy_and_get_jax_both_wait_and_give_the_same_again(
    cluster: sd.Cluster, coordinator: sd.ClusterCoordinator
) -> None:
    step = sd.function(lambda x: x * 2.0, seconds=1.0)
    first, second = (coordinator.schedule(step, args=(np.float32([1, 2]),)) for _ in range(2))
    assert isinstance(first.fetch(), np.ndarray) and cluster.now > 1.0
    assert isinstance(second.get(), jax.Array)
    for _ in range(2):
        assert first.fetch().tolist() == second.get().tolist() == [2.0, 4.0]


def test_b146_fetch_goes_through_structures_and_passes_other_things_through(coordinator: sd.ClusterCoordinator) -> None:
    one, two = (coordinator.schedule(lambda number=number: number) for number in (1, 2))
    assert coordinator.fetch([one, {"a": two}, 3]) == [1, {"a": 2}, 3]
    assert coordinator.fetch("as it is") == "as it is"


# -- join, done and errors ----------------------------------------------------------------------------------------------


def test_b147_join_with_nothing_to_wait_for_returns_as_often_as_it_is_called(coordinator: sd.ClusterCoordinator) -> None:
    for _ in range(3):
        coordinator.join()
    assert coordinator.done()
    coordinator.schedule(lambda: sd.sleep(1.0))
    assert not coordinator.done()
    for _ in range(3):
        coordinator.join()
    assert coordinator.done()


def test_b149_values_from_before_an_error_stay_and_the_error_is_raised_at_each_fetch(coordinator: sd.ClusterCoordinator) -> None:
    before = [coordinator.schedule(lambda number=number: number) for number in range(4)]
    coordinator.join()
    bad = coordinator.schedule(failing(KeyError("own")))
    with pytest.raises(KeyError, match="own"):
        coordinator.join()
    assert coordinator.fetch(before) == [0, 1, 2, 3]
    for _ in range(3):
        with pytest.raises(KeyError, match="own"):
            bad.fetch()
        with pytest.raises(KeyError, match="own"):
            bad.get()


def test_b151_of_two_errors_the_first_is_raised_and_the_next_join_is_clean(coordinator: sd.ClusterCoordinator) -> None:
    later, sooner = coordinator.schedule(failing(ValueError("later"), 2.0)), coordinator.schedule(failing(ValueError("sooner"), 1.0))
    with pytest.raises(ValueError, match="sooner"):
        coordinator.join()
    coordinator.join()
    for value, words in ((later, "later"), (sooner, "sooner")):
        with pytest.raises(ValueError, match=words):
            value.fetch()


def test_b152_a_function_whose_schedule_raises_the_error_is_not_run(cluster: sd.Cluster, coordinator: sd.ClusterCoordinator) -> None:
    coordinator.schedule(failing(ValueError("first")))
    sd.sleep(1.0, cluster)
    ran: list[int] = []
    with pytest.raises(ValueError, match="first"):
        coordinator.schedule(lambda: ran.append(1))
    coordinator.join()
    assert ran == [] and coordinator.scheduled == 1


def test_b152_done_raises_the_error_once(cluster: sd.Cluster, coordinator: sd.ClusterCoordinator) -> None:
    coordinator.schedule(failing(ValueError("first")))
    sd.sleep(1.0, cluster)
    with pytest.raises(ValueError, match="first"):
        coordinator.done()
    assert coordinator.done()


def test_b153_everything_can_be_used_after_an_error(coordinator: sd.ClusterCoordinator) -> None:
    with coordinator.strategy.scope():
        count = sd.Variable(0.0)
    iterator = iter(coordinator.create_per_worker_dataset(rows_of(8)))
    step = sd.function(lambda iterator: count.assign_add(next(iterator)[0] * 0.0 + 1.0))
    for _ in range(3):
        coordinator.schedule(step, args=(iterator,))
        coordinator.join()
        coordinator.schedule(failing(ValueError("again")))
        with pytest.raises(ValueError, match="again"):
            coordinator.join()
    assert float(count.numpy()) == 3.0


# -- the queue ----------------------------------------------------------------------------------------------------------


def test_b154_schedule_waits_at_the_bound_of_the_queue(cluster: sd.Cluster) -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster), max_queued=2)
    for _ in range(4):  # two run, two wait
        coordinator.schedule(lambda: sd.sleep(1.0))
    assert cluster.now == 0.0
    coordinator.schedule(lambda: sd.sleep(1.0))
    assert cluster.now == pytest.approx(1.0, abs=MESSAGE_S)
    assert sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster)).options.max_queued == 262_144


@pytest.mark.parametrize("bound", [0, -5])
def test_b154_a_bound_of_zero_or_less_is_none(bound: int, cluster: sd.Cluster) -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster), max_queued=bound)
    for _ in range(20):
        coordinator.schedule(lambda: sd.sleep(1.0))
    assert cluster.now == 0.0


def test_b155_a_closure_that_is_put_back_counts_once(cluster: sd.Cluster, coordinator: sd.ClusterCoordinator) -> None:
    cluster.faults.crash("worker:0", at=0.5)
    values = [coordinator.schedule(lambda number=number: sd.sleep(1.0) or number) for number in range(3)]
    assert coordinator.pending == 3
    sd.sleep(0.8, cluster)
    assert coordinator.pending == 3 and not coordinator.done()
    coordinator.join()
    assert coordinator.pending == 0 and coordinator.fetch(values) == [0, 1, 2]


def test_b155_a_closure_that_is_put_back_while_others_are_cancelled_is_cancelled(
    cluster: sd.Cluster, coordinator: sd.ClusterCoordinator
) -> None:
    cluster.faults.crash("worker:1", at=0.5)
    coordinator.schedule(failing(ValueError("first"), 0.2))
    lost = coordinator.schedule(lambda: sd.sleep(1.0))
    with pytest.raises(ValueError, match="first"):
        coordinator.join()
    with pytest.raises(CancelledError, match="first"):
        lost.fetch()


# -- per-worker values --------------------------------------------------------------------------------------------------


def test_b156_a_worker_makes_its_dataset_and_nobody_counts_that(coordinator: sd.ClusterCoordinator) -> None:
    made: list[int] = []
    iterator = iter(coordinator.create_per_worker_dataset(lambda: made.append(1) or rows_of(4)()))
    coordinator.join()
    assert coordinator.done() and coordinator.pending == 0
    for _ in range(4):
        coordinator.schedule(sd.function(lambda iterator: next(iterator).sum(), seconds=1.0), args=(iterator,))
    coordinator.join()
    assert len(made) == len(coordinator.strategy.workers)


@pytest.mark.parametrize("kind", ["function", "dataset", "distributed"])
def test_b157_a_per_worker_dataset_comes_from_a_function_or_a_dataset(kind: str, coordinator: sd.ClusterCoordinator) -> None:
    sources: dict[str, Any] = {
        "function": rows_of(4),
        "dataset": rows_of(4)(),
        "distributed": coordinator.strategy.distribute_datasets_from_function(lambda context: rows_of(4)()),
    }
    iterator = iter(coordinator.create_per_worker_dataset(sources[kind]))
    assert coordinator.schedule(row, args=(iterator,)).fetch() == 0


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("kind", ["distributed dataset", "function that distributes one", "function that distributes a function"])
def test_b157_what_was_distributed_gives_each_worker_all_its_rows(kind: str, devices: int) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), devices_per_worker=devices)
    coordinator, rows = sd.ClusterCoordinator(strategy), sd.Dataset.range(8)
    sources: dict[str, Any] = {
        "distributed dataset": strategy.distribute_dataset(rows.batch(4)),
        "function that distributes one": lambda: strategy.distribute_dataset(rows.batch(4)),
        "function that distributes a function": lambda: strategy.distribute_datasets_from_function(lambda _: rows.batch(4 // devices)),
    }
    iterator = iter(coordinator.create_per_worker_dataset(sources[kind]))
    step = sd.function(lambda iterator: (sd.get_current_worker_index(), strategy.run(lambda x: x + 0, args=(next(iterator),))))
    found: dict[int, list[int]] = {0: [], 1: []}
    for worker, value in coordinator.fetch([coordinator.schedule(step, args=(iterator,)) for _ in range(4)]):
        found[int(worker)] += [int(row) for part in strategy.local_results(value) for row in part]
    assert found == {0: list(range(8)), 1: list(range(8))}


def test_b157_a_number_is_a_value_error(coordinator: sd.ClusterCoordinator) -> None:
    with pytest.raises(ValueError, match="Unexpected dataset type"):
        coordinator.create_per_worker_dataset(3)


def test_b157_a_step_is_traced_once_for_the_datasets_of_all_workers(coordinator: sd.ClusterCoordinator) -> None:
    step: Any = sd.function(lambda iterator: next(iterator).sum(), seconds=1.0)
    iterator = iter(coordinator.create_per_worker_dataset(rows_of(4)))
    for _ in range(4):
        coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    assert step.traces == 1


def test_b158_a_variable_made_for_a_dataset_is_a_value_error(coordinator: sd.ClusterCoordinator) -> None:
    iterator = iter(coordinator.create_per_worker_dataset(lambda: sd.Variable(0.0) and rows_of(4)()))
    coordinator.schedule(row, args=(iterator,))
    with pytest.raises(ValueError, match="each worker would make one more"):
        coordinator.join()


def test_b158_iter_in_a_step_is_a_runtime_error(coordinator: sd.ClusterCoordinator) -> None:
    dataset = coordinator.create_per_worker_dataset(rows_of(4))
    coordinator.schedule(sd.function(lambda: iter(dataset) and 1))
    with pytest.raises(RuntimeError, match=r"iter\(\) was called on a per-worker dataset in a step"):
        coordinator.join()


def test_b158_next_at_the_coordinator_is_a_runtime_error(coordinator: sd.ClusterCoordinator) -> None:
    with pytest.raises(RuntimeError, match="its elements live on the workers"):
        next(iter(coordinator.create_per_worker_dataset(rows_of(4))))


def test_b159_a_dataset_that_runs_out_is_an_error_of_join_and_a_new_iterator_begins_anew(coordinator: sd.ClusterCoordinator) -> None:
    dataset = coordinator.create_per_worker_dataset(rows_of(1))
    step = sd.function(lambda iterator: next(iterator).sum(), seconds=1.0)
    for _ in range(2):
        iterator = iter(dataset)
        assert coordinator.fetch([coordinator.schedule(step, args=(iterator,)) for _ in range(2)]) == [0, 0]
        coordinator.schedule(step, args=(iterator,))
        with pytest.raises(OutOfRangeError, match="has run out"):
            coordinator.join()


def test_b160_a_dataset_that_was_made_at_the_coordinator_can_be_used(coordinator: sd.ClusterCoordinator) -> None:
    outer = rows_of(4)()
    iterator = iter(coordinator.create_per_worker_dataset(lambda: outer.map(lambda x: x + 1)))
    assert coordinator.schedule(row, args=(iterator,)).fetch() == 1


def test_b160_a_dataset_that_cannot_be_made_is_an_error_of_join(coordinator: sd.ClusterCoordinator) -> None:
    iterator = iter(coordinator.create_per_worker_dataset(lambda: sd.Dataset.from_files([])))
    coordinator.schedule(row, args=(iterator,))
    with pytest.raises(ClosureInputError, match="could not make its dataset"):
        coordinator.join()


def test_b162_a_resource_that_cannot_be_made_fails_the_closures_that_use_it_and_no_others(coordinator: sd.ClusterCoordinator) -> None:
    resource = coordinator.create_per_worker_resource(failing(KeyError("table")))
    assert coordinator.schedule(lambda: 7).fetch() == 7
    coordinator.join()
    value = coordinator.schedule(lambda resource: pytest.fail(f"called with {resource}"), args=(resource,))
    with pytest.raises(ClosureInputError, match="table") as caught:
        coordinator.join()
    assert isinstance(caught.value.__cause__, KeyError) and isinstance(caught.value, InvalidArgumentError)
    with pytest.raises(ClosureInputError, match="table"):
        value.fetch()


def test_b163_a_coordinator_leaves_nothing_behind() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    iterator = iter(coordinator.create_per_worker_dataset(rows_of(4)))
    coordinator.schedule(row, args=(iterator,)).fetch()
    left = [weakref.ref(coordinator), weakref.ref(iterator)]
    cluster.close()
    del cluster, coordinator, iterator
    gc.collect()
    assert [reference() for reference in left] == [None, None]


def test_b163_what_workers_made_for_an_iterator_goes_with_it(cluster: sd.Cluster, coordinator: sd.ClusterCoordinator) -> None:
    dataset = coordinator.create_per_worker_dataset(rows_of(4))
    step = sd.function(lambda iterator: next(iterator).sum(), seconds=1.0)
    sizes: list[int] = []
    for _ in range(4):
        iterator = iter(dataset)
        for _ in range(2):
            coordinator.schedule(step, args=(iterator,))
        coordinator.join()
        del iterator
        gc.collect()
        coordinator.schedule(lambda: 1).fetch()
        sizes.append(len(cluster.world.tasks["worker:0"].local))
    assert len(set(sizes)) == 1


# -- delays and the watchdog --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cap_s", "first_s"), [(0.0, [0, 2, 4]), (3.0, [0, 2, 3])])
def test_b164_worker_i_begins_i_delays_later(cap_s: float, first_s: list[int]) -> None:
    coordinator = sd.ClusterCoordinator(
        sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1})), start_delay_s=2.0, start_delay_max_s=cap_s
    )
    cluster = coordinator.strategy.cluster
    values = [coordinator.schedule(lambda: (cluster.now, sd.sleep(9.0))) for _ in range(3)]
    assert sorted(round(began_s) for began_s, _ in coordinator.fetch(values)) == first_s


def test_b165_the_watchdog_says_when_no_closure_ends(cluster: sd.Cluster) -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster), watchdog_s=5.0)
    for _ in range(4):  # a closure that ends in time is a new beginning
        coordinator.schedule(lambda: sd.sleep(4.0)).fetch()
    coordinator.schedule(lambda: sd.sleep(9.0))
    with pytest.warns(RuntimeWarning, match="No closure has ended for 5 s"):
        coordinator.join()
    assert len(cluster.trace.instants.where(category="watchdog")) == 1


def test_b165_there_is_no_watchdog_unless_it_is_asked_for(cluster: sd.Cluster, coordinator: sd.ClusterCoordinator) -> None:
    coordinator.schedule(lambda: sd.sleep(1e6)).fetch()
    assert not cluster.trace.instants.where(category="watchdog")


def test_errors_of_the_coordinator_are_those_of_python() -> None:
    assert issubclass(ClosureInputError, ValueError) and issubclass(FailedPreconditionError, RuntimeError)
