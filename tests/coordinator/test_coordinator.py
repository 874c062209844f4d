"""The coordinator: closures that end the process, several callers, a chief that is gone, and what is left of it."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd
from simdist.errors import AbortedError, DeadlineExceededError, FailedPreconditionError, UnavailableError


def coordinated(**jobs: int) -> tuple[sd.Cluster, sd.ClusterCoordinator]:
    cluster = sd.Cluster({"worker": 2, "ps": 1, **jobs})
    return cluster, sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))


def exits(error: BaseException) -> Callable[[], Any]:
    def closure() -> None:
        raise error

    return closure


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=lambda error: type(error).__name__)
def test_a_closure_that_would_end_its_process_fails_and_the_workers_go_on(error: BaseException) -> None:
    _, coordinator = coordinated()
    for _ in range(3):
        coordinator.schedule(exits(error))
    with pytest.raises(AbortedError, match=type(error).__name__) as caught:
        coordinator.join()
    assert caught.value.__cause__ is error
    assert [coordinator.schedule(lambda n=n: n).fetch() for n in range(4)] == [0, 1, 2, 3]


def test_a_dataset_that_exits_fails_its_closure() -> None:
    _, coordinator = coordinated()
    dataset = coordinator.create_per_worker_dataset(lambda: sd.Dataset.range(4).map(lambda x: sys.exit(2), pure=False).batch(2))
    coordinator.schedule(sd.function(lambda iterator: next(iterator).sum()), args=(iter(dataset),))
    with pytest.raises(AbortedError, match=r"SystemExit\(2\)"):
        coordinator.join()
    assert coordinator.schedule(lambda: 7).fetch() == 7


def test_everybody_who_joins_comes_back() -> None:
    cluster, coordinator = coordinated(evaluator=2)
    for _ in range(4):
        coordinator.schedule(lambda: sd.sleep(1.0))
    run = cluster.launch(lambda: coordinator.join() or cluster.now, job="evaluator")
    coordinator.join()
    run.join()
    assert set(run.results.values()) == {cluster.now}


def test_nothing_is_accepted_after_the_cluster_was_closed() -> None:
    cluster, coordinator = coordinated()
    assert coordinator.schedule(lambda: 7).fetch() == 7
    cluster.close()
    for call in (lambda: coordinator.schedule(lambda: 1), lambda: cluster.launch(print), lambda: sd.sleep(1.0, cluster)):
        with pytest.raises(FailedPreconditionError, match="closed"):
            call()
    with pytest.raises(FailedPreconditionError, match="closed"):
        cluster.faults.crash("worker:0", at=cluster.now + 1.0)


def test_schedule_from_another_thread_is_refused() -> None:
    _cluster, coordinator = coordinated()
    caught: list[str] = []

    def elsewhere() -> None:
        try:
            coordinator.schedule(lambda: 1)
        except FailedPreconditionError as error:
            caught.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(caught) == 1 and "another thread" in caught[0]
    assert coordinator.scheduled == 0


@pytest.mark.parametrize("restart_after", [None, 0.5])
def test_a_coordinator_whose_chief_has_crashed_says_so(restart_after: float | None) -> None:
    cluster, coordinator = coordinated()
    cluster.faults.crash("chief", at=0.5, restart_after=restart_after)
    value = coordinator.schedule(lambda: sd.sleep(2.0))
    with pytest.raises(UnavailableError, match="this program with it"):
        coordinator.join()
    sd.sleep(1.0, cluster)
    for call in (coordinator.join, lambda: coordinator.schedule(lambda: 1), coordinator.done, value.fetch):
        with pytest.raises(UnavailableError, match="held this coordinator"):
            call()


def test_another_coordinator_on_the_same_cluster_finds_the_workers() -> None:
    cluster, first = coordinated()
    first.schedule(lambda: 1)
    first.join()
    second = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    assert second is not first
    assert second.schedule(lambda: 2).fetch() == 2
    assert sd.ClusterCoordinator(second.strategy) is second


def test_clusters_with_a_coordinator_and_a_model_are_collected() -> None:
    from simdist import keras

    x = np.ones((8, 2), np.float32)
    found: list[weakref.ref[Any]] = []
    for number in range(12):
        with sd.Cluster({"worker": 2, "ps": 1}, numerics="deferred") as cluster:
            strategy = sd.ParameterServerStrategy(cluster)
            with strategy.scope():
                model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
                model.compile("sgd", "mse")
            if number % 4 == 0:
                model.fit(sd.Dataset.from_tensor_slices((x, x[:, :1])).batch(4), steps_per_epoch=2, verbose=0)
            sd.ClusterCoordinator(strategy).schedule(lambda: 1)
        found += [weakref.ref(cluster), weakref.ref(strategy), weakref.ref(model)]
        del cluster, strategy, model
    gc.collect()
    assert sum(reference() is not None for reference in found) == 0


def test_a_coordinator_keeps_nothing_of_closures_that_are_done() -> None:
    _, coordinator = coordinated()
    for _ in range(50):
        coordinator.schedule(lambda: 1)
    coordinator.join()
    kept = [value for value in vars(coordinator.queue).values() if isinstance(value, (dict, list, set)) and len(value) > 2]
    assert kept == [] and coordinator.closures == {}


def test_a_worker_that_is_down_when_the_coordinator_is_made_runs_nothing_until_it_is_back() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    cluster.faults.crash("worker:0", at=1.0, restart_after=2.0)
    sd.sleep(2.0, cluster)
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    worker = cluster.world.tasks["worker:0"]
    assert worker.fibers == []
    sd.sleep(2.0, cluster)
    assert len(worker.fibers) == 1
    results = [coordinator.schedule(lambda: sd.sleep(1.0) or cluster.now) for _ in range(2)]
    assert [value.fetch() for value in results] == [pytest.approx(5.0, abs=1e-3)] * 2


def test_closures_of_two_coordinators_run_in_the_scopes_of_their_own_strategies() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    strategies = [sd.ParameterServerStrategy(cluster) for _ in range(2)]
    coordinators = [sd.ClusterCoordinator(strategy) for strategy in strategies]
    for coordinator, strategy in [*zip(coordinators, strategies, strict=True)] * 2:
        assert coordinator.schedule(sd.get_strategy).fetch() is strategy


def test_slots_that_a_lost_server_should_hold_leave_nothing_behind() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        variables = [sd.Variable(np.zeros(3, np.float32), name=name) for name in "ab"]
        optimizer = sd.Optimizer(optax.adam(0.1))

    @sd.function
    def step() -> None:
        optimizer.apply_gradients([(np.ones(3, np.float32), variable) for variable in variables])

    coordinator = sd.ClusterCoordinator(strategy)
    cluster.faults.crash("ps:1", at=1e-6)
    sd.sleep(1e-3, cluster)
    held = cluster.world.tasks["ps:0"].memory.in_use_bytes
    for _ in range(2):  # the second step finds no slots half made
        coordinator.schedule(step)
        with pytest.raises(UnavailableError, match="ps:1"):
            coordinator.join()
    before = len(strategy.store.layout.groups)
    coordinator.schedule(step)
    with pytest.raises(UnavailableError, match="ps:1"):
        coordinator.join()
    assert len(strategy.store.layout.groups) == before
    assert cluster.world.tasks["ps:0"].memory.in_use_bytes >= held


# -- inside a closure ---------------------------------------------------------------------------------------------------


def fit_in_a_closure(coordinator: sd.ClusterCoordinator) -> Callable[[], Any]:
    from simdist import keras

    x = np.ones((8, 2), np.float32)
    with coordinator.strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    return lambda: model.fit(sd.Dataset.from_tensor_slices((x, x[:, :1])).batch(4), steps_per_epoch=2, verbose=0)


CALLS: dict[str, Callable[[sd.ClusterCoordinator], Callable[[], Any]]] = {
    "fit": fit_in_a_closure,
    "join": lambda coordinator: coordinator.join,
    "schedule": lambda coordinator: lambda: coordinator.schedule(lambda: 1),
    "schedule while it is traced": lambda coordinator: sd.function(lambda: coordinator.schedule(lambda: 1)),
}


@pytest.mark.parametrize("engine", ["simulated", "in_process"])
@pytest.mark.parametrize("call", CALLS)
def test_a_closure_can_neither_schedule_for_its_own_coordinator_nor_wait_for_it(call: str, engine: str) -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}, engine=engine)))
    coordinator.schedule(CALLS[call](coordinator))
    with pytest.raises(FailedPreconditionError, match=r"was called in closure 0 on worker:0, .* call schedule, join or fit where"):
        coordinator.join()
    assert coordinator.scheduled == 1
    assert coordinator.schedule(lambda: 7).fetch() == 7


def test_a_closure_may_schedule_for_another_coordinator() -> None:
    _, outer = coordinated()
    _, inner = coordinated()
    assert outer.schedule(lambda: inner.schedule(lambda: 7).fetch()).fetch() == 7


@pytest.mark.parametrize("engine", ["simulated", "in_process"])
def test_a_closure_cannot_close_its_cluster(engine: str) -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1}, engine=engine)
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    coordinator.schedule(cluster.close)
    with pytest.raises(FailedPreconditionError, match=r"cluster\.close\(\) was called in closure 0 on worker:0"):
        coordinator.join()
    other = sd.Cluster({"worker": 1})
    coordinator.schedule(other.close).fetch()
    assert coordinator.schedule(lambda: 7).fetch() == 7
    cluster.close()
    with pytest.raises(FailedPreconditionError, match="closed"):
        coordinator.schedule(lambda: 7)


def test_a_remote_value_says_how_its_closure_stands_without_waiting() -> None:
    cluster, coordinator = coordinated()
    good, bad = coordinator.schedule(lambda: 7), coordinator.schedule(exits(SystemExit(3)))
    assert (good.state, bad.state, cluster.now) == ("pending", "pending", 0.0)
    with pytest.raises(AbortedError):
        coordinator.join()
    assert (good.state, bad.state) == ("ready", "failed")
    assert repr(good).endswith("ready)")


def test_a_worker_that_others_know_to_be_down_is_given_nothing_by_a_new_coordinator() -> None:
    cluster, first = coordinated()
    assert first.schedule(lambda: 1).fetch() == 1
    cluster.faults.crash("worker:0", at=cluster.now + 1.0)
    sd.sleep(10.0, cluster)
    second = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    assert list(second.queue.idle) == ["worker:1"]
    began_s = cluster.now
    ends_s = [second.schedule(lambda: sd.sleep(1.0) or cluster.now) for _ in range(2)]
    assert [value.fetch() - began_s for value in ends_s] == [pytest.approx(1.0, abs=0.1), pytest.approx(2.0, abs=0.1)]


def test_done_raises_the_error_of_a_closure_once() -> None:
    cluster, coordinator = coordinated()
    coordinator.schedule(exits(ValueError("a closure's own error")))
    assert coordinator.done() is False
    sd.sleep(1.0, cluster)
    with pytest.raises(ValueError, match="own error"):
        coordinator.done()
    assert coordinator.done() is True


def test_looks_without_end_at_a_second_that_stands_still_are_warned_of_once() -> None:
    cluster, coordinator = coordinated()
    coordinator.schedule(lambda: sd.sleep(1.0))
    with pytest.warns(RuntimeWarning, match=r"done\(\) was False 3 times at 0 s.*sd\.sleep") as caught:
        for _ in range(10):
            assert coordinator.done() is False
    assert len(caught) == 1 and caught[0].filename == __file__
    while not coordinator.done():
        sd.sleep(0.1, cluster)
    assert cluster.now == pytest.approx(1.0, abs=0.2)


@pytest.mark.filterwarnings("ignore:done.. was False")
def test_a_loop_without_end_over_done_ends_with_an_error_and_closures_go_on() -> None:
    cluster, coordinator = coordinated()
    value = coordinator.schedule(lambda: sd.sleep(1.0))
    with pytest.raises(DeadlineExceededError, match=r"done\(\) was False 10,000 times at 0 s.*sd\.sleep"):
        while not coordinator.done():
            pass
    coordinator.join()
    assert value.state == "ready" and cluster.now >= 1.0
