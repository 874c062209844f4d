"""The engine that runs everything at once: what happens when, and what it refuses."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from simdist.errors import AbortedError, DeadlineExceededError, FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from simdist.program.collective import Collective
from simdist.program.function import BoundCall, StepFunction
from simdist.program.kernels import Kernel
from simdist.program.operations import Program
from simdist.program.values import Aval, Bundle
from simdist.runtime.linked import LinkedCollective, LinkedProgram
from tests.golden.problems import Linear, batches

SUM = {"synchronization": sd.VariableSynchronization.ON_READ, "aggregation": sd.VariableAggregation.SUM}


def cluster_of(workers: int = 2) -> sd.Cluster:
    return sd.Cluster({"worker": workers, "ps": 1}, engine="in_process")


@pytest.fixture
def strategy() -> sd.ParameterServerStrategy:
    return sd.ParameterServerStrategy(cluster_of())


@pytest.fixture
def coordinator(strategy: sd.ParameterServerStrategy) -> sd.ClusterCoordinator:
    return sd.ClusterCoordinator(strategy)


# -- at once -------------------------------------------------------------------------------------------------------------


def test_a_closure_has_run_when_schedule_returns(coordinator: sd.ClusterCoordinator, strategy: sd.ParameterServerStrategy) -> None:
    with strategy.scope():
        v = sd.Variable(1.0)
    value = coordinator.schedule(sd.function(lambda: v.assign_add(2.0)))
    assert coordinator.done()
    assert float(v) == 3.0
    assert repr(value) == "RemoteValue(closure 0, ready)"
    assert strategy.cluster.now == 0.0


def test_closures_go_to_the_workers_in_turn_and_each_keeps_its_own(coordinator: sd.ClusterCoordinator) -> None:
    def count(own: list[int]) -> int:
        own.append(0)
        return len(own)

    resource = coordinator.create_per_worker_resource(list)
    values = [coordinator.schedule(count, args=(resource,)) for _ in range(5)]
    assert coordinator.fetch(values) == [1, 1, 2, 2, 3]


def test_two_coordinators_of_one_cluster_find_its_workers_up(strategy: sd.ParameterServerStrategy) -> None:
    one, other = (sd.ClusterCoordinator(own) for own in (strategy, sd.ParameterServerStrategy(strategy.cluster)))
    assert [coordinator.schedule(lambda: 7).fetch() for coordinator in (one, other)] == [7, 7]


def test_code_of_users_runs_in_the_context_of_its_worker_and_leaves_that_of_the_caller(
    coordinator: sd.ClusterCoordinator, strategy: sd.ParameterServerStrategy
) -> None:
    def fails() -> None:
        assert sd.get_strategy() is strategy
        raise ValueError("on purpose")

    assert coordinator.schedule(sd.get_strategy).fetch() is strategy
    assert not sd.has_strategy()
    coordinator.schedule(fails)
    assert not sd.has_strategy()
    with pytest.raises(ValueError, match="on purpose"):
        coordinator.join()
    assert coordinator.schedule(lambda: 1).fetch() == 1


def test_what_a_failing_closure_added_to_a_metric_does_not_count(
    coordinator: sd.ClusterCoordinator, strategy: sd.ParameterServerStrategy
) -> None:
    with strategy.scope():
        seen = sd.Variable(0.0, **SUM)

    @sd.function
    def step(x: Any) -> None:
        seen.assign_add(1.0)
        sd.check_numerics(x, "the input")

    for value in (1.0, np.nan):
        coordinator.schedule(step, args=(np.float32(value),))
    with pytest.raises(InvalidArgumentError, match=r"the input: a value is NaN or Inf \(worker:1, step 0\)"):
        coordinator.join()
    assert float(seen) == 1.0


def test_a_step_that_fails_leaves_no_mark() -> None:
    cluster = cluster_of(3)
    strategy = sd.MultiWorkerMirroredStrategy(cluster)
    with strategy.scope():
        v = sd.Variable(1.0, aggregation=sd.VariableAggregation.MEAN)

    @sd.function
    def step(x: Any) -> None:
        def replica(own: Any) -> None:
            v.assign_add(1.0)
            sd.check_numerics(own, "the input")

        strategy.run(replica, args=(x,))

    step(sd.PerReplica([np.float32(0.0)] * 3))
    with pytest.raises(InvalidArgumentError, match="worker:2, step 1"):
        step(sd.PerReplica(list(map(np.float32, [0.0, 0.0, np.nan]))))
    assert float(v) == 2.0
    assert [cluster.engine.steps_of(f"worker:{index}") for index in range(3)] == [1, 1, 1]


def test_copies_that_cannot_differ_change_once_for_all_replicas() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(cluster_of(3))
    with strategy.scope():
        v = sd.Variable(1.0, aggregation=sd.VariableAggregation.MEAN)

    def twice() -> None:
        v.assign_add(1.0)
        v.assign(2.0 * v.value)

    strategy.run(twice)
    assert float(v) == 4.0
    assert strategy.engine.versions.version(v.placement.cells[0].group.number) == 2


@pytest.mark.parametrize(
    "network",
    [
        sd.hardware.ethernet_25g.in_racks(2, oversubscription=4.0).with_port("worker:1", latency=1e-3).within_host(sd.hardware.nvlink3),
        sd.hardware.Network().as_torus((2, 2)).within_host(sd.hardware.pcie4),
    ],
    ids=["racks", "torus"],
)
def test_strategies_see_the_figures_that_the_simulated_network_has(network: sd.hardware.Network) -> None:
    engines = [sd.Cluster({"worker": 4}, network=network, engine=engine).engine for engine in ("in_process", "simulated")]
    devices = ["worker:0/gpu:0", "worker:0/gpu:1", "worker:3/gpu:0"]
    for engine in engines:
        for device in devices:
            engine.add_device(device)
    devices = [*engines[0].task_names, *devices]
    pairs = [(one, other) for one in devices for other in devices if one != other and {one, other} != {"chief:0", "worker:0"}]
    here, there = ([engine.path_figures(*pair) for pair in pairs] for engine in engines)
    assert here == there


def test_a_dataset_that_ends_is_an_error_that_names_its_worker(coordinator: sd.ClusterCoordinator) -> None:
    step = sd.function(lambda iterator: jnp.sum(next(iterator)[0]))
    iterator = iter(coordinator.create_per_worker_dataset(lambda: batches(24)))
    for _ in range(3):
        coordinator.schedule(step, args=(iterator,))
    with pytest.raises(OutOfRangeError, match="dataset of worker:0 has run out"):
        coordinator.join()


def test_an_error_of_a_kernel_says_where_it_was_computed(coordinator: sd.ClusterCoordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise MemoryError("full")

    monkeypatch.setattr(Kernel, "__call__", full)
    coordinator.schedule(sd.function(lambda x: x + 1.0), args=(np.float32(1.0),))
    with pytest.raises(MemoryError) as caught:
        coordinator.join()
    assert "of worker:0, step 0" in caught.value.__notes__[0]


def test_ctrl_c_in_a_closure_counts_when_its_reply_has_been_taken(coordinator: sd.ClusterCoordinator) -> None:
    with pytest.raises(KeyboardInterrupt):
        coordinator.schedule(signal.raise_signal, args=(signal.SIGINT,))
    assert coordinator.done()
    assert coordinator.schedule(lambda: 1).fetch() == 1


def test_a_closure_that_would_end_the_process_fails_instead(coordinator: sd.ClusterCoordinator) -> None:
    coordinator.schedule(exit)
    with pytest.raises(AbortedError, match="Closure 0 wanted to end the process of worker:0"):
        coordinator.join()


def test_debugging_says_where_a_closure_failed(coordinator: sd.ClusterCoordinator, capsys: pytest.CaptureFixture[str]) -> None:
    with sd.debug():
        coordinator.schedule(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        coordinator.join()
    assert "closure 0 failed on worker:0" in capsys.readouterr().err


def test_accounts_say_who_holds_memory_and_refuse_nothing(strategy: sd.ParameterServerStrategy) -> None:
    with strategy.scope():
        sd.Variable(np.zeros(256, np.float32), name="table")
    memory = strategy.engine.memory("ps:0")
    assert (memory.largest(1), memory.capacity_bytes) == ([("table", 1024)], float("inf"))


def test_the_trace_tells_what_was_placed_and_seen_and_no_work() -> None:
    def instants(engine: str) -> list[tuple[str, str, str]]:
        cluster = sd.Cluster({"worker": 2}, engine=engine)
        strategy = sd.MultiWorkerMirroredStrategy(cluster)
        Linear(strategy, optax.sgd(0.05)).train(batches(8), 1)
        assert cluster.trace.lanes == ["chief:0", "worker:0", "worker:1"]
        assert bool(len(cluster.trace.spans)) == (engine == "simulated")
        return [(one.lane, one.category, one.name) for one in cluster.trace.instants]

    assert instants("in_process") == instants("simulated") != []


def test_fresh_is_a_cluster_on_the_same_engine() -> None:
    network = sd.hardware.ethernet_1g
    cluster = sd.Cluster({"worker": 2}, seed=4, network=network, engine="in_process").fresh()
    assert repr(cluster) == "Cluster({'worker': 2}, seed=4, engine='in_process')"
    assert cluster.network is network
    assert cluster.fresh(seed=5).seed == 5


# -- replicas that do not agree ------------------------------------------------------------------------------------------


def program_of(*lengths: int) -> LinkedProgram:
    """All-reduces of ones, one for each length."""
    avals = [Aval((length,), "float32") for length in lengths]
    collectives = tuple(LinkedCollective(Collective("all_reduce", (aval,), (aval,), 2), 2 * n, 2 * n + 1) for n, aval in enumerate(avals))
    ones = tuple((2 * n, Bundle.of([np.ones(length, np.float32)])) for n, length in enumerate(lengths))
    slots = tuple((aval,) for aval in avals for _ in range(2))
    return LinkedProgram(Program("step", (), {}, {}), collectives, ones, len(slots) - 1, list, slots, (), 0)


def met(programs: Sequence[LinkedProgram]) -> list[float]:
    strategy = sd.MultiWorkerMirroredStrategy(cluster_of())
    call: BoundCall = StepFunction(lambda: None).bind((), {})
    bundles = strategy.group.run(strategy.members, strategy.members, programs, [call, call])
    return [float(array.sum()) for (array,) in strategy.engine.arrays(bundles)]


def test_replicas_meet_in_one_exchange_after_the_other() -> None:
    assert met([program_of(3, 2)] * 2) == [4.0, 4.0]


def test_replicas_with_other_shapes_are_both_named() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"worker:0 came to all_reduce of float32\[2\], but worker:1 to .*\[4\], as collective 1"
    ):
        met([program_of(3, 2), program_of(3, 4)])


def test_a_replica_that_never_comes_is_named() -> None:
    with pytest.raises(DeadlineExceededError, match=r"float32\[2\] cannot end: worker:1 did not come"):
        met([program_of(3, 2), program_of(3)])


# -- refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda cluster: cluster.faults, "Faults need machines"),
        (lambda cluster: cluster.world, "this cluster has none"),
        (lambda cluster: cluster.launch(lambda: None), "Launched mains need an engine with tasks that run side by side"),
        (lambda cluster: cluster.engine.join_group(None, [], "worker:0"), "tasks that run side by side"),
        (lambda cluster: sd.sleep(1.0, cluster), "No time passes in this cluster"),
        (lambda cluster: sd.MultiWorkerMirroredStrategy(cluster, backup_workers=1), "nobody is faster"),
    ],
    ids=["faults", "world", "launch", "join", "sleep", "backup workers"],
)
def test_what_needs_time_is_refused_and_the_other_engine_named(use: Callable[[sd.Cluster], Any], message: str) -> None:
    with pytest.raises(FailedPreconditionError, match=f"{message}.*engine='simulated'"):
        use(cluster_of())


def test_a_closure_cannot_sleep(coordinator: sd.ClusterCoordinator) -> None:
    coordinator.schedule(sd.sleep, args=(1.0,))
    with pytest.raises(FailedPreconditionError, match="No time passes"):
        coordinator.join()


@pytest.mark.parametrize(
    ("argument", "error", "message"),
    [
        ({"numerics": "off"}, FailedPreconditionError, "numerics='off' says when and where"),
        ({"hardware": sd.hardware.v100}, FailedPreconditionError, "hardware= would have no effect"),
        ({"jax_devices": []}, FailedPreconditionError, "jax_devices= would have no effect"),
        ({"engine": "in_proces"}, InvalidArgumentError, "Did you mean 'in_process'"),
    ],
    ids=str,
)
def test_an_argument_that_could_not_be_honoured_is_refused(argument: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sd.Cluster({"worker": 1}, **{"engine": "in_process", **argument})


def test_eager_numerics_are_what_there_is() -> None:
    assert sd.Cluster({"worker": 1}, numerics="eager", engine="in_process").numerics == cluster_of().numerics == "eager"


def test_a_wait_that_nothing_can_end_says_for_what() -> None:
    promise = cluster_of().engine.promise()
    with pytest.raises(DeadlineExceededError, match="Waiting for the post"):
        promise.wait("the post")
    promise.open(3)
    promise.open(4)
    assert promise.is_open and promise.wait("the post") == 3


def test_a_task_that_there_is_not_is_an_error_with_a_hint() -> None:
    with pytest.raises(InvalidArgumentError, match="Did you mean 'worker:1'"):
        cluster_of().engine.process("wroker:1")


def test_nothing_runs_after_the_cluster_was_closed(coordinator: sd.ClusterCoordinator, strategy: sd.ParameterServerStrategy) -> None:
    together = sd.MultiWorkerMirroredStrategy(strategy.cluster)
    with strategy.cluster:
        pass
    with pytest.raises(FailedPreconditionError, match="schedule was called after the cluster was closed"):
        coordinator.schedule(lambda: 1)
    with pytest.raises(FailedPreconditionError, match="A step was taken after the cluster was closed"):
        together.run(lambda: 1.0)


def test_another_thread_is_refused(coordinator: sd.ClusterCoordinator) -> None:
    found: list[BaseException] = []

    def elsewhere() -> None:
        try:
            coordinator.schedule(lambda: 1)
        except FailedPreconditionError as error:
            found.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "another thread" in str(found[0])
