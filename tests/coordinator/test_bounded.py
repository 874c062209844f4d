"""Workers in rounds: the policy by itself, and training under mode="sync" and mode="bounded"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
from simdist.coordinator.bounded import BoundedStaleness
from simdist.coordinator.synchronization import Asynchronous
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from tests.coordinator.rounds_of_training import by_hand, trained

NAMES = ["worker:0", "worker:1", "worker:2"]
RANKS = {name: rank for rank, name in enumerate(NAMES)}

# -- the policy -----------------------------------------------------------------------------------------------------------


def policy_of(staleness: int, backup_workers: int = 0) -> BoundedStaleness:
    policy = BoundedStaleness(RANKS, staleness, backup_workers)
    for name in NAMES:
        policy.joined(name)
    return policy


def work(policy: BoundedStaleness, name: str, ticket: int) -> None:
    policy.began(name)
    finish(policy, name, ticket)


def finish(policy: BoundedStaleness, name: str, ticket: int) -> None:
    policy.completed(name, ticket, ticket)
    policy.ended(name, True)


def test_a_round_is_complete_when_every_worker_has_added_to_it_in_the_order_of_ranks() -> None:
    policy = policy_of(0)
    for ticket, name in enumerate(reversed(NAMES)):
        assert policy.complete_rounds(False) == []
        work(policy, name, ticket)
    (complete,) = policy.complete_rounds(False)
    assert (complete.clock, complete.tickets) == (0, (2, 1, 0))
    assert policy.complete_rounds(False) == []


def test_the_lowest_rank_begins_first_whoever_was_faster() -> None:
    policy = policy_of(0)
    assert policy.choose(["worker:2", "worker:0", "worker:1"]) == "worker:0"
    work(policy, "worker:0", 0)
    assert policy.choose(["worker:0"]) is None
    assert policy.choose(["worker:0", "worker:2"]) == "worker:2"


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_a_worker_is_at_most_so_many_rounds_ahead_and_needs_the_others(staleness: int) -> None:
    policy = policy_of(staleness)
    for clock in range(staleness + 1):
        assert policy.may_begin("worker:0")
        policy.began("worker:0")
        assert policy.ticket("worker:0", clock, 0).needs == max(0, clock - staleness)
        finish(policy, "worker:0", clock)
    assert not policy.may_begin("worker:0")


def test_a_round_that_nobody_can_add_to_is_complete_when_nothing_is_queued() -> None:
    policy = policy_of(0)
    work(policy, "worker:1", 7)
    policy.began("worker:2")
    assert policy.complete_rounds(True) == []  # one is still at work
    policy.ended("worker:2", False)
    assert [complete.tickets for complete in policy.complete_rounds(True)] == [(7,)]
    assert policy.complete_rounds(True) == []
    assert all(policy.may_begin(name) for name in NAMES)


def test_a_worker_that_leaves_is_not_waited_for_and_what_it_has_completed_counts() -> None:
    policy = policy_of(0)
    work(policy, "worker:0", 0)
    policy.began("worker:2")
    policy.left("worker:0")
    policy.left("worker:2")
    work(policy, "worker:1", 1)
    assert [complete.tickets for complete in policy.complete_rounds(False)] == [(0, 1)]


def test_a_worker_that_joins_counts_from_the_open_round_on() -> None:
    policy = policy_of(0)
    policy.left("worker:2")
    for number in range(3):
        work(policy, "worker:0", 2 * number)
        work(policy, "worker:1", 2 * number + 1)
        assert len(policy.complete_rounds(False)) == 1
    policy.joined("worker:2")
    work(policy, "worker:0", 10)
    work(policy, "worker:1", 11)
    assert policy.complete_rounds(False) == []
    work(policy, "worker:2", 12)
    assert [complete.tickets for complete in policy.complete_rounds(False)] == [(10, 11, 12)]


def test_backup_workers_are_not_waited_for_and_come_too_late() -> None:
    policy = policy_of(0, backup_workers=1)
    for name in NAMES:
        policy.began(name)
    finish(policy, "worker:2", 0)
    assert policy.complete_rounds(False) == []
    finish(policy, "worker:0", 1)
    assert [complete.tickets for complete in policy.complete_rounds(False)] == [(1, 0)]
    assert policy.late() == "worker:1"
    policy.ended("worker:1", False)
    assert policy.late() is None
    assert policy.may_begin("worker:1")


FACTS = st.lists(st.tuples(st.sampled_from(["begin", "complete", "fail", "leave", "join"]), st.sampled_from(NAMES)), max_size=80)


@given(FACTS, st.integers(0, 3), st.integers(0, 2))
def test_every_completed_closure_counts_once_and_no_worker_is_too_far_ahead(
    facts: list[tuple[str, str]], staleness: int, backups: int
) -> None:
    policy = policy_of(staleness, backups if staleness == 0 else 0)
    up, at_work, done, counted, rounds = set(NAMES), dict[str, int](), list[int](), list[int](), list[int]()
    for ticket, (fact, name) in enumerate(facts):
        if fact == "begin" and name in up and name not in at_work and policy.may_begin(name):
            policy.began(name)
            at_work[name] = policy.ticket(name, ticket, 0).clock
            assert 0 <= at_work[name] - policy.open_round <= staleness
        elif fact in ("complete", "fail") and name in at_work:
            at_work.pop(name)
            if fact == "complete":
                policy.completed(name, ticket, ticket)
                done.append(ticket)
            policy.ended(name, fact == "complete")
        elif fact == "leave" and name in up:
            policy.left(name)
            up.discard(name)
            at_work.pop(name, None)
        elif fact == "join" and name not in up:
            policy.joined(name)
            up.add(name)
        for complete in policy.complete_rounds(False):
            counted += complete.tickets
            rounds.append(complete.clock)
        late = {name for name, clock in at_work.items() if clock < policy.open_round}
        assert not late or backups
        while (name := policy.late()) is not None:
            late.remove(name)
            at_work.pop(name)
            policy.ended(name, False)
        assert not late
        # Somebody may always begin, or is at work: nothing stands still.
        assert not up or at_work or any(policy.may_begin(other) for other in up)
    for name in list(at_work):
        policy.ended(name, False)
    for complete in policy.complete_rounds(True):
        counted += complete.tickets
        rounds.append(complete.clock)
    assert sorted(counted) == done
    assert rounds == list(range(len(rounds)))


# -- the numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("optimizer", [optax.sgd(0.1), optax.adam(0.05)], ids=["sgd", "adam"])
@pytest.mark.sample
def test_synchronous_rounds_average_the_gradients_of_all_workers(workers: int, optimizer: Any) -> None:
    result = trained(workers * 10, workers=workers, optimizer=optimizer, mode="sync")
    expected = by_hand(10, workers, optimizer)
    np.testing.assert_allclose(result.weights["w"], expected[0], rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(result.weights["b"], expected[1], rtol=2e-6, atol=1e-7)
    assert result.weights["count"] == workers * 10
    assert {span.facts["version"] - 1 - span.facts["read_version"] for span in result.applied if "read_version" in span.facts} == {0}


def test_staleness_0_has_the_bits_of_the_synchronous_mode() -> None:
    assert trained(40, mode="bounded", staleness=0).bits() == trained(40, mode="sync").bits()


STEP = optax.sgd(0.125)  # a power of two: the product is exact, so that it does not matter how the update is compiled


def mirrored(steps: int, workers: int) -> tuple[bytes, ...]:
    """The same training under a synchronous strategy, whose reducer adds the gradients in the order of the replicas."""
    from tests.coordinator.rounds_of_training import FEATURES, PER_WORKER, TARGETS

    strategy = sd.MirroredStrategy(devices=workers, cross_device_ops=sd.ReductionToOneDevice())
    with strategy.scope():
        w, b = sd.Variable(np.zeros((3, 1), np.float32)), sd.Variable(np.zeros((1,), np.float32))
        optimizer = sd.Optimizer(STEP)

    @sd.function
    def step(x: Any, y: Any) -> None:
        def replica(x: Any, y: Any) -> None:
            _, gradients = sd.value_and_grad(lambda: ((x @ w.value + b.value - y) ** 2).mean(), [w, b])()
            totals = sd.get_replica_context().all_reduce(sd.ReduceOp.MEAN, gradients)
            optimizer.apply_gradients(zip(totals, [w, b], strict=True), skip_gradients_aggregation=True)

        strategy.run(replica, args=(x, y))

    parts = [(FEATURES[worker::workers], TARGETS[worker::workers]) for worker in range(workers)]
    for number in range(steps):
        rows = slice(number * PER_WORKER, (number + 1) * PER_WORKER)
        x, y = (
            strategy.distribute_values_from_function(lambda c, i=i, rows=rows: parts[c.replica_id_in_sync_group][i][rows]) for i in (0, 1)
        )
        step(x, y)
    return w.numpy().tobytes(), b.numpy().tobytes()


@pytest.mark.parametrize("workers", [2, 4])
def test_rounds_have_the_bits_of_a_synchronous_strategy_with_the_same_order_of_additions(workers: int) -> None:
    assert trained(workers * 10, workers=workers, optimizer=STEP, mode="sync").bits()[:2] == mirrored(10, workers)


def test_one_asynchronous_worker_has_the_bits_of_rounds_of_one() -> None:
    assert trained(20, workers=1).bits() == trained(20, workers=1, mode="sync").bits()


@pytest.mark.parametrize("staleness", [1, 2, 5])
def test_bounded_reads_have_all_updates_that_they_must_have(staleness: int) -> None:
    result = trained(80, lambda cluster: cluster.faults.slow("worker:3", 3.0, at=0.0), mode="bounded", staleness=staleness)
    stale = [span.facts["version"] - 1 - span.facts["read_version"] for span in result.applied if "read_version" in span.facts]
    assert 0 < max(stale) <= staleness
    assert result.weights["count"] == 80


def test_no_worker_is_further_ahead_than_its_staleness() -> None:
    for staleness in (0, 2):
        cluster = trained(60, lambda cluster: cluster.faults.slow("worker:1", 5.0, at=0.0), mode="bounded", staleness=staleness).cluster
        done: Counter[str] = Counter()
        ends = sorted((span.end_s, span.lane) for span in cluster.trace.spans.where(category="closure"))
        for _, lane in ends[:-4]:
            done[lane] += 1
            assert done[lane] - min(done[f"worker:{number}"] for number in range(4)) <= staleness + 1


def test_results_of_a_round_are_there_when_it_counts() -> None:
    result = trained(4, mode="sync")
    assert result.cluster.now >= max(span.end_s for span in result.applied)
    assert result.coordinator.done()


def test_a_round_that_is_not_full_counts_when_nothing_is_queued() -> None:
    result = trained(6, mode="sync")
    assert result.weights["count"] == 6.0
    versions = [span.facts["version"] for span in result.applied if span.name.startswith("adam") or "read_version" in span.facts]
    assert max(versions) == 2


def test_the_gradient_of_a_backup_worker_is_dropped_and_its_closure_runs_again() -> None:
    def slow(cluster: sd.Cluster) -> None:
        cluster.faults.slow("worker:3", 50.0, at=0.0)

    with_backup, without = trained(40, slow, mode="sync", backup_workers=1), trained(40, slow, mode="sync")
    assert with_backup.weights["count"] == without.weights["count"] == 40.0
    retries = [mark for mark in with_backup.cluster.trace.instants.where(category="retry") if mark.lane == "worker:3"]
    assert retries and not list(without.cluster.trace.instants.where(category="retry"))
    dropped = list(with_backup.cluster.trace.spans.where(category="dropped"))
    assert [(span.lane, span.facts["closure"]) for span in dropped] == [(mark.lane, mark.facts["closure"]) for mark in retries]
    assert not list(without.cluster.trace.spans.where(category="dropped"))
    assert with_backup.cluster.now < without.cluster.now


@pytest.mark.parametrize("mode", [{"mode": "sync"}, {"mode": "bounded", "staleness": 2}, {"mode": "sync", "backup_workers": 1}])
@pytest.mark.parametrize("worker", ["worker:0", "worker:3"])
@pytest.mark.sample
def test_a_worker_that_dies_costs_time_and_every_closure_counts_once(mode: dict[str, Any], worker: str) -> None:
    for at in np.linspace(0.0005, 0.006, 6):
        result = trained(40, lambda cluster, at=at: cluster.faults.crash(worker, at=float(at), restart_after=0.001), **mode)
        assert result.weights["count"] == 40.0


def test_metrics_count_in_the_order_of_ranks() -> None:
    losses = [trained(24, lambda cluster, name=name: cluster.faults.slow(name, 3.0, at=0.0), mode="sync").losses for name in NAMES]
    assert all(one == other for one, other in pairwise(losses))


def test_several_steps_of_a_closure_are_closures_of_one_round_each() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    strategy = sd.ParameterServerStrategy(cluster, mode="sync")
    with strategy.scope():
        v = sd.Variable(1.0)

    @sd.function
    def step() -> None:
        v.assign_add(v.value)

    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule_steps(step, (), {}, 4)
    coordinator.join()
    assert float(v.numpy()) == 9.0  # two rounds of two: each triples it


def test_a_step_that_reads_what_it_has_changed_is_refused() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), mode="sync")
    with strategy.scope():
        v = sd.Variable(1.0, name="v")

    @sd.function
    def twice() -> None:
        for _ in range(2):
            v.assign_add(v.value)

    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(twice)
    with pytest.raises(FailedPreconditionError, match="reads v after it has changed it"):
        coordinator.join()


# -- arguments ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"mode": "sinc"}, "mode='sinc'.*Did you mean 'sync'"),
        ({"staleness": 3}, "staleness=3 belongs to mode='bounded'"),
        ({"mode": "bounded"}, "needs staleness="),
        ({"mode": "bounded", "staleness": -1}, "staleness is -1"),
        ({"backup_workers": 1}, "belongs to mode='sync'"),
        ({"mode": "sync", "backup_workers": 2}, "at most 1"),
        ({"recovery": "copy"}, "recovery='copy'"),
        ({"recovery": "replica"}, "only one ps task"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named):
        sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), **options)


def test_a_policy_beside_a_mode_is_refused() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), mode="sync")
    with pytest.raises(InvalidArgumentError, match=r"mode='sync'.*Leave one of them out"):
        sd.ClusterCoordinator(strategy, Asynchronous())


def test_an_engine_without_time_refuses_rounds() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1}, engine="in_process")
    with pytest.raises(FailedPreconditionError, match="They need time"):
        sd.ParameterServerStrategy(cluster, mode="sync", backup_workers=1)
    assert sd.ParameterServerStrategy(cluster).workers == ["worker:0", "worker:1"]


CHANGES: dict[str, Callable[[sd.Variable, Any, Any], object]] = {
    "scatter_update": lambda table, rows, values: table.scatter_update(rows, values),
    "scatter_max": lambda table, rows, values: table.scatter_max(rows, values),
    "scatter_mul": lambda table, rows, values: table.scatter_mul(rows, values),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_single_elements_in_one_round_are_those_of_all_workers(change: str) -> None:
    def table_after(mode: Any) -> Any:
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}, seed=0), mode=mode)
        with strategy.scope():
            table = sd.Variable(np.ones((4, 2), np.float32))
        coordinator = sd.ClusterCoordinator(strategy)

        @sd.function
        def step(iterator: Any) -> None:
            rows, values = next(iterator)
            strategy.run(lambda: CHANGES[change](table, rows, values))

        def dataset_fn(context: sd.InputContext) -> sd.Dataset:
            worker = context.input_pipeline_id
            rows = np.int32([[worker, 3 - worker]])
            return sd.Dataset.from_tensor_slices((rows, np.float32([[[5 + worker] * 2, [7 + worker] * 2]]))).repeat()

        iterator = iter(coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(dataset_fn)))
        for _ in range(2):
            coordinator.schedule(step, args=(iterator,))
        coordinator.join()
        return table.numpy()

    found = table_after("sync")
    np.testing.assert_array_equal(found, table_after("async"))
    np.testing.assert_array_equal(found[:, 0], [5, 6, 8, 7])
