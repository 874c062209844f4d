"""How workers wait for each other: not at all, unless a policy says so; and policies that the servers cannot carry out are refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import simdist as sd
from simdist.coordinator.synchronization import Asynchronous, Reads, Synchronization, UpdatesCount
from simdist.errors import InvalidArgumentError

WORKERS = 3


class Bounded(Asynchronous):
    """No worker is more than `staleness` closures ahead of the slowest."""

    def __init__(self, staleness: int) -> None:
        self.staleness = staleness
        self.done: dict[str, int] = {}

    def joined(self, worker: str) -> None:
        self.done[worker] = min(self.done.values(), default=0)

    def left(self, worker: str) -> None:
        del self.done[worker]

    def may_begin(self, worker: str) -> bool:
        return self.done[worker] - min(self.done.values()) <= self.staleness

    def ended(self, worker: str, has_completed: bool) -> None:
        self.done[worker] += has_completed


def trained(synchronization: Synchronization | None, crash_at: float | None = None) -> sd.Cluster:
    """Thirty closures of one second on workers of which the last takes four."""
    cluster = sd.Cluster({"worker": WORKERS, "ps": 1})
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        count = sd.Variable(0.0)
    cluster.faults.slow("worker:2", 4.0, at=0.0)
    if crash_at is not None:
        cluster.faults.crash("worker:2", at=crash_at)

    @sd.function(seconds=1.0)
    def step() -> None:
        count.assign_add(count.value * 0.0 + 1.0)

    coordinator = sd.ClusterCoordinator(strategy, synchronization)
    for _ in range(30):
        coordinator.schedule(step)
    coordinator.join()
    assert float(count.numpy()) == 30.0
    return cluster


def lead(cluster: sd.Cluster) -> int:
    """How many closures more than the slowest worker another had completed when it began one, at most."""
    closures = list(cluster.trace.spans.where(category="closure"))
    completed = [Counter(span.lane for span in closures if span.end_s <= begun.start_s) for begun in closures]
    return max(done[begun.lane] - min(done[f"worker:{n}"] for n in range(WORKERS)) for done, begun in zip(completed, closures, strict=True))


def test_without_a_policy_workers_run_as_if_asynchronous_was_given() -> None:
    assert trained(None).trace.digest() == trained(Asynchronous()).trace.digest()


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_a_policy_that_bounds_staleness_holds_fast_workers_back(staleness: int) -> None:
    assert lead(trained(Asynchronous())) > 4
    assert lead(trained(Bounded(staleness))) == staleness


def test_a_policy_is_told_that_a_worker_has_left_and_nobody_waits_for_it() -> None:
    cluster = trained(Bounded(0), crash_at=6.0)
    assert {span.lane for span in cluster.trace.spans.where(category="closure") if span.start_s > 12.0} == {"worker:0", "worker:1"}


class Rounds(Asynchronous):
    reads = Reads.ROUND

    def __repr__(self) -> str:
        return "Rounds()"


class Averaged(Asynchronous):
    counts = UpdatesCount.WITH_ROUND


@pytest.mark.parametrize(("policy", "named"), [(Rounds(), r"Rounds\(\) .*reads=round"), (Averaged(), "counts=with_round")])
def test_a_policy_that_needs_what_servers_cannot_do_is_refused(policy: Any, named: str) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    with pytest.raises(InvalidArgumentError, match=named):
        sd.ClusterCoordinator(strategy, policy)
    assert sd.ClusterCoordinator(strategy).schedule(lambda: 1).fetch() == 1


def test_the_coordinator_of_a_strategy_keeps_its_policy() -> None:
    strategy, policy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})), Bounded(1)
    coordinator = sd.ClusterCoordinator(strategy, synchronization=policy)
    assert sd.ClusterCoordinator(strategy) is sd.ClusterCoordinator(strategy, policy) is coordinator
    with pytest.raises(InvalidArgumentError, match=r"has a coordinator already, with .*Asynchronous\(\) cannot take its place"):
        sd.ClusterCoordinator(strategy, Asynchronous())


class Chooses(Asynchronous):
    """A user's own, which chooses this."""

    def __init__(self, chosen: Any) -> None:
        self.chosen = chosen

    def choose(self, idle: Any) -> Any:
        return self.chosen


@pytest.mark.parametrize("chosen", ["worker:0", "worker:9", "ps:0", 0, ["worker:1"]])
def test_a_policy_that_chooses_who_is_not_idle_is_named(chosen: Any) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}))
    coordinator = sd.ClusterCoordinator(strategy, Chooses(chosen))
    with pytest.raises(InvalidArgumentError, match=r"Chooses\.choose\(idle\) returned .*; expected one of the idle workers, .*worker:1"):
        for _ in range(3):
            coordinator.schedule(sd.function(lambda: 1))
        coordinator.join()


def test_what_is_no_policy_is_refused_and_what_it_lacks_is_named() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    given: Any
    for given, named in [(3, "3, which is no policy; it has no reads"), (Asynchronous, "Asynchronous'>, which is no policy. Give")]:
        with pytest.raises(TypeError, match=named):
            sd.ClusterCoordinator(strategy, given)


def test_a_policy_may_say_what_it_needs_in_plain_text() -> None:
    class Plain(Asynchronous):
        reads: Any = "present"
        counts: Any = "on_arrival"

    assert (
        str(sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})), Plain()).queue.synchronization)
        == "Plain()"
    )
