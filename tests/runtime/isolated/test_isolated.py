"""Tasks with memories of their own: what crosses is bytes, nothing live is on the other side, and what is no data is refused."""

from __future__ import annotations

import gc
import signal
import types
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from simdist.program.function import StepFunction
from simdist.program.operations import Program
from simdist.runtime.in_process.isolated.host import Host
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.updating import Assignment
from simdist.runtime.wire.messages import (
    BeginStep,
    Confirmed,
    FetchedGroups,
    FetchGroups,
    PutGroup,
    StepEnded,
    TakeKernel,
    TakeProgram,
    read_message,
)
from simdist.strategies.base import Strategy
from simdist.variables.layout import Layout
from simdist.variables.state import Cell, Group
from tests.golden.problems import Linear, batches

SUM: dict[str, Any] = {"synchronization": sd.VariableSynchronization.ON_READ, "aggregation": sd.VariableAggregation.SUM}


def cluster_of(workers: int = 2, servers: int = 2) -> Any:
    return sd.Cluster({"worker": workers, "ps": servers}, engine="in_process", isolated=True)


@pytest.fixture
def coordinator() -> sd.ClusterCoordinator:
    return sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster_of()))


def requests_of(cluster: Any) -> list[tuple[str, Any]]:
    """All that is sent from now on: to whom, and what."""
    board, sent = cluster.engine.switchboard, list[tuple[str, Any]]()
    for task, handle in board.hosts.items():

        def noted(request: bytes, task: str = task, handle: Callable[[bytes], bytes] = handle) -> bytes:
            assert type(request) is bytes
            sent.append((task, read_message(request)))
            reply = handle(request)
            assert type(reply) is bytes
            return reply

        board.hosts[task] = noted
    return sent


# -- no live object crosses --------------------------------------------------------------------------------------------------

LIVE = (
    *(sd.Variable, sd.Optimizer, sd.ClusterCoordinator, sd.Dataset, sd.Cluster, Strategy),
    *(StepFunction, Program, LinkedProgram, Layout, Group, Cell),
)


def reachable(root: Any) -> Iterator[Any]:
    """All objects that somebody can come to from this one; not by way of classes, modules and the globals of functions."""
    seen, stack = {id(root): root}, [root]
    while stack:
        value = stack.pop()
        yield value
        if isinstance(value, types.FunctionType):
            found = [value.__closure__, value.__defaults__, value.__kwdefaults__]
        else:
            found = gc.get_referents(value)
        for one in found:
            if id(one) not in seen and not isinstance(one, (type, types.ModuleType)):
                seen[id(one)] = one
                stack.append(one)


def live_at(hosts: list[Host]) -> set[str]:
    found = set[str]()
    for host in hosts:
        for value in reachable(host):
            if isinstance(value, LIVE) or (isinstance(value, types.FunctionType) and value.__module__ == __name__):
                found.add(type(value).__name__)
    return found


def hosts_of(cluster: Any) -> list[Host]:
    return [handle.__self__ for handle in cluster.engine.switchboard.hosts.values()]


def test_hosts_know_no_variable_no_optimizer_and_no_function_of_a_user() -> None:
    cluster = cluster_of()
    strategy = sd.ParameterServerStrategy(cluster)
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = sd.Variable(np.ones((4, 1), np.float32))
        seen = sd.Variable(0.0, **SUM)
        optimizer = sd.Optimizer(optax.adam(0.05))

    @sd.function
    def step(iterator: Any) -> Any:
        x, y = next(iterator)
        loss, gradients = sd.value_and_grad(lambda: jnp.mean((x @ weights.value - y) ** 2), [weights])()
        optimizer.apply_gradients(zip(gradients, [weights], strict=True))
        seen.assign_add(1.0)
        return {"loss": loss}

    iterator = iter(coordinator.create_per_worker_dataset(lambda: batches(8).repeat()))
    for _ in range(3):
        coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    together = sd.MultiWorkerMirroredStrategy(cluster)
    Linear(together, optax.sgd(0.1, momentum=0.9)).train(batches(8), 1)
    hosts = hosts_of(cluster)
    assert len(hosts) == 5 and all(isinstance(host, Host) for host in hosts)
    assert sum(len(host.groups.bundles) for host in hosts) > 3
    assert live_at(hosts) == set()


def test_the_search_for_live_objects_would_find_one() -> None:
    cluster = cluster_of()
    (host, *_) = hosts_of(cluster)
    variable = sd.Variable(1.0)
    host.groups.bundles[99] = lambda: variable  # type: ignore[assignment]
    assert {"Variable", "function"} <= live_at([host])


def test_bytes_alone_cross_and_each_kernel_and_program_once_for_each_task(coordinator: sd.ClusterCoordinator) -> None:
    strategy = coordinator.strategy
    with strategy.scope():
        v = sd.Variable(np.zeros(3, np.float32))
    sent = requests_of(strategy.cluster)
    step = sd.function(lambda x: v.assign_add(x))
    for number in range(6):
        coordinator.schedule(step, args=(np.full(3, number, np.float32),))
    coordinator.join()
    assert v.numpy().tolist() == [15.0] * 3
    kept = [(task, message.kernel) for task, message in sent if isinstance(message, TakeKernel)]
    assert len(kept) == len(set(kept)) > 0
    assert [task for task, message in sent if isinstance(message, TakeProgram)] == ["worker:0", "worker:1"]
    assert [task for task, message in sent if isinstance(message, BeginStep)] == ["worker:0", "worker:1"] * 3


def test_batches_travel_as_arrays() -> None:
    cluster = cluster_of()
    strategy = sd.MultiWorkerMirroredStrategy(cluster)
    sent = requests_of(cluster)
    dataset = strategy.distribute_dataset(sd.Dataset.from_tensor_slices(np.arange(8, dtype=np.float32)).map(lambda x: x * 2).batch(4))
    step = sd.function(lambda iterator: strategy.run(lambda x: jnp.sum(x), args=(next(iterator),)))
    iterator = iter(dataset)
    results = [[float(own) for own in strategy.local_results(step(iterator))] for _ in range(2)]
    assert results == [[0 + 2, 4 + 6], [8 + 10, 12 + 14]]
    began = [message.batches for _, message in sent if isinstance(message, BeginStep)]
    assert [np.asarray(one[0][0][0]).tolist() for one in began] == [[0, 2], [4, 6], [8, 10], [12, 14]]


# -- memories apart ----------------------------------------------------------------------------------------------------------


def test_what_the_sender_changes_afterwards_changes_nothing_at_the_receiver(coordinator: sd.ClusterCoordinator) -> None:
    strategy = coordinator.strategy
    first, operand = np.ones(3, np.float32), np.ones(3, np.float32)
    with strategy.scope():
        v = sd.Variable(first)
    first += 100
    v.assign_add(operand)
    operand += 100
    coordinator.schedule(sd.function(lambda x: v.assign_add(x)), args=(operand,))
    coordinator.join()
    operand += 100
    assert v.numpy().tolist() == [103.0] * 3
    looked: Any = np.asarray(v.numpy())
    assert not any(np.shares_memory(looked, array) for array in arrays_at(strategy.cluster))


def arrays_at(cluster: Any) -> list[np.ndarray]:
    return [np.asarray(array) for host in hosts_of(cluster) for bundle in host.groups.bundles.values() if bundle for array in bundle.arrays]


def test_each_task_holds_its_own_copy_of_what_several_have() -> None:
    cluster = cluster_of(workers=3)
    strategy = sd.MultiWorkerMirroredStrategy(cluster)
    with strategy.scope():
        v = sd.Variable(1.0, aggregation=sd.VariableAggregation.MEAN)
    strategy.run(lambda: v.assign_add(1.0))
    assert [float(array) for array in arrays_at(cluster)] == [2.0] * 3
    v.assign(7.0)
    assert [float(array) for array in arrays_at(cluster)] == [7.0] * 3


def test_a_group_that_moves_takes_its_arrays_along() -> None:
    cluster = cluster_of(workers=3)
    strategy = sd.MultiWorkerMirroredStrategy(cluster)
    with strategy.scope():
        v = sd.Variable(np.float32([1, 2]))
    group = v.placement.cells[0].group.number
    versions: Any = cluster.engine.versions
    versions.lie_at(group, ("worker:2",))
    v.assign_add(np.float32([1, 1]))
    versions.lie_at(group, ("worker:0", "worker:2"))
    held = {host.name: host.groups.bundles.get(group) for host in hosts_of(cluster)}
    assert [task for task, bundle in held.items() if bundle] == ["worker:0", "worker:2"]
    assert np.asarray(held["worker:0"].arrays[0]).tolist() == [2.0, 3.0]


def test_who_names_a_group_that_was_joined_with_others_means_its_part() -> None:
    cluster = cluster_of(workers=1, servers=1)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        made = [sd.Variable(float(value)) for value in (1, 10, 100)]
    cells = [variable.placement.cells[0] for variable in made]
    olds = [cell.group.number for cell in cells]
    pair = strategy.store.layout.join([cells[1], cells[0]]).number
    strategy.store.layout.join([cells[2], cells[0], cells[1]])
    engine: Any = cluster.engine
    assert [list(map(float, arrays)) for arrays in engine.read([*olds, pair])] == [[1], [10], [100], [10, 1]]
    scalar = cells[0].aval
    engine.assign([olds[0]], Assignment("add", (scalar,), 0), np.float32(5), "late")
    engine.assign([pair], Assignment("add", (scalar, scalar), 0), np.float32(7), "later")
    assert list(map(float, made)) == [6.0, 17.0, 100.0]


def test_a_variable_that_nobody_holds_any_more_says_so() -> None:
    cluster = cluster_of()
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        v = sd.Variable(1.0, name="gone")
    cluster.engine.versions.forget(v.placement.cells[0].group.number)
    with pytest.raises(sd.errors.UnavailableError, match="gone"):
        v.numpy()


# -- failures ----------------------------------------------------------------------------------------------------------------


def test_a_step_that_fails_leaves_no_mark_at_any_task() -> None:
    cluster = cluster_of(workers=3)
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
    with pytest.raises(InvalidArgumentError, match=r"the input: a value is NaN or Inf \(worker:2, step 1\)"):
        step(sd.PerReplica(list(map(np.float32, [0.0, 0.0, np.nan]))))
    assert {float(array) for array in arrays_at(cluster)} == {2.0}
    assert [cluster.engine.steps_of(f"worker:{index}") for index in range(3)] == [1, 1, 1]
    assert [one.name for one in cluster.trace.instants if one.category == "observe"].count("the input") == 6
    assert all(not host._steps and not host._replicas for host in hosts_of(cluster))


def test_an_error_of_a_kernel_says_where_it_was_computed(coordinator: sd.ClusterCoordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise MemoryError("full")

    step = sd.function(lambda x: x + 1.0)
    assert float(coordinator.fetch(coordinator.schedule(step, args=(np.float32(1.0),)))) == 2.0
    monkeypatch.setattr("simdist.program.kernels.Kernel.__call__", full)
    coordinator.schedule(step, args=(np.float32(1.0),))
    with pytest.raises(MemoryError) as caught:
        coordinator.join()
    assert "of worker:1, step 0" in caught.value.__notes__[0]


def test_a_message_that_is_damaged_on_its_way_is_the_error_of_its_closure(coordinator: sd.ClusterCoordinator) -> None:
    board: Any = coordinator.strategy.cluster.engine
    board = board.switchboard
    handle = board.hosts["worker:0"]
    board.hosts["worker:0"] = lambda request: handle(request[:-1])
    coordinator.schedule(sd.function(lambda x: x + 1.0), args=(np.float32(1.0),))
    with pytest.raises(InvalidArgumentError, match="A message cannot be read"):
        coordinator.join()


def test_a_dataset_that_ends_is_an_error_that_names_its_worker(coordinator: sd.ClusterCoordinator) -> None:
    step = sd.function(lambda iterator: jnp.sum(next(iterator)[0]))
    iterator = iter(coordinator.create_per_worker_dataset(lambda: batches(24)))
    for _ in range(3):
        coordinator.schedule(step, args=(iterator,))
    with pytest.raises(OutOfRangeError, match="dataset of worker:0 has run out"):
        coordinator.join()


def test_ctrl_c_between_two_tasks_counts_when_the_step_is_over_at_both() -> None:
    cluster = cluster_of()
    strategy = sd.MultiWorkerMirroredStrategy(cluster)
    with strategy.scope():
        v = sd.Variable(1.0, aggregation=sd.VariableAggregation.MEAN)
    board: Any = cluster.engine
    hosts = board.switchboard.hosts
    handle = hosts["worker:0"]

    def interrupted(request: bytes) -> bytes:
        if type(read_message(request)).__name__ == "EndStep":
            signal.raise_signal(signal.SIGINT)
        return handle(request)

    hosts["worker:0"] = interrupted
    with pytest.raises(KeyboardInterrupt):
        strategy.run(lambda: v.assign_add(1.0))
    hosts["worker:0"] = handle
    assert {float(array) for array in arrays_at(cluster)} == {2.0}


# -- what is no data ---------------------------------------------------------------------------------------------------------


def test_a_plain_function_is_refused_with_what_to_do(coordinator: sd.ClusterCoordinator) -> None:
    coordinator.schedule(lambda: 1)
    with pytest.raises(
        FailedPreconditionError, match=r"plain Python function cannot be sent to worker:0: .*Make it a step \(@sd.function\)"
    ):
        coordinator.join()
    assert float(coordinator.fetch(coordinator.schedule(sd.function(lambda: np.float32(1.0))))) == 1.0


def test_a_step_that_calls_back_into_python_is_refused_with_its_name(coordinator: sd.ClusterCoordinator) -> None:
    @sd.function
    def talks(x: Any) -> Any:
        return jax.pure_callback(lambda value: value, jax.ShapeDtypeStruct((), np.float32), x)

    coordinator.schedule(talks, args=(np.float32(1.0),))
    with pytest.raises(FailedPreconditionError, match="The kernel 'talks' cannot be sent as data"):
        coordinator.join()


def test_a_model_that_runs_eagerly_is_refused_with_what_to_do() -> None:
    with sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}, engine="in_process", isolated=True)).scope():
        model = sd.keras.Sequential([sd.keras.Input((1,)), sd.keras.layers.Dense(1)])
        model.compile("sgd", "mse", run_eagerly=True)
    x = np.ones((4, 1), np.float32)
    with pytest.raises(FailedPreconditionError, match=r"the step runs eagerly, as Python of this process. Leave run_eagerly=True out"):
        model.fit(x, x, batch_size=4, verbose=0)


def test_a_reply_where_a_request_should_stand_is_refused() -> None:
    cluster = cluster_of()
    engine: Any = cluster.engine
    with pytest.raises(InvalidArgumentError, match="A Confirmed is a reply"):
        engine.post.ask("ps:0", Confirmed(), Confirmed)
    with pytest.raises(sd.errors.AbortedError, match="ps:0 replied Confirmed to PutGroup; expected BeginStep"):
        engine.post.ask("ps:0", PutGroup(5, ()), BeginStep)


def test_a_host_that_was_never_sent_a_program_or_a_group_says_so() -> None:
    engine: Any = cluster_of().engine
    with pytest.raises(FailedPreconditionError, match="Send it with TakeProgram"):
        engine.post.ask("ps:0", BeginStep(0, None, True, "ps:0", "digest", 0, 0, (), (), ()), StepEnded)
    with pytest.raises(FailedPreconditionError, match="Group 7 was asked for"):
        engine.post.ask("ps:0", FetchGroups((7,)), FetchedGroups)


# -- the cluster -------------------------------------------------------------------------------------------------------------


def test_isolation_belongs_to_the_engine_that_has_it() -> None:
    with pytest.raises(FailedPreconditionError, match=r"isolated=True sends bytes.*engine='in_process', isolated=True"):
        sd.Cluster({"worker": 1}, isolated=True)
    with pytest.raises(TypeError, match="isolated is 1; expected True or False"):
        sd.Cluster({"worker": 1}, engine="in_process", isolated=1)  # type: ignore[arg-type]
    assert not sd.Cluster({"worker": 1}, engine="in_process").isolated


def test_fresh_is_isolated_too() -> None:
    cluster = sd.Cluster({"worker": 1}, seed=4, engine="in_process", isolated=True).fresh()
    assert repr(cluster) == "Cluster({'worker': 1}, seed=4, engine='in_process', isolated=True)"
    assert hosts_of(cluster)[0].name == "chief:0"
