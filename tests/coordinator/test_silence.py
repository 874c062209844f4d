"""Pauses and partitions under a coordinator: every closure is run at least once, and its reply is taken exactly once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simdist as sd
from simdist import keras
from simdist.hardware import Network

Plan = Callable[[sd.Cluster], Any]

LATENCY_S = 50e-6
SLOW = Network(bandwidth=8.0, latency=LATENCY_S)  # the sixteen bytes of a variable take two seconds
TIMEOUT_S = 30.0


class Training:
    """Closures that count: on each server whenever one runs, and with the reply whenever one is taken."""

    def __init__(self, plan: Plan | None = None, workers: int = 2, servers: int = 2, seconds: float = 0.05, **options: Any) -> None:
        self.cluster = sd.Cluster({"worker": workers, "ps": servers}, seed=0, **options)
        strategy = sd.ParameterServerStrategy(self.cluster)
        with strategy.scope():
            self.counts = [sd.Variable(np.zeros(4, np.float32), name=f"count{number}") for number in range(servers)]
            self.metric = keras.metrics.Sum()
        self.coordinator = sd.ClusterCoordinator(strategy)

        @sd.function(seconds=seconds)
        def step() -> None:
            one = self.counts[0].value * 0.0 + 1.0
            for count in self.counts:
                count.assign_add(one)
            self.metric.update_state(1.0)

        self.step = step
        if plan is not None:
            plan(self.cluster)

    def run(self, closures: int) -> Training:
        for _ in range(closures):
            self.coordinator.schedule(self.step)
        self.coordinator.join()
        assert self.coordinator.done()
        return self

    @property
    def runs(self) -> list[float]:
        return [float(count.numpy()[0]) for count in self.counts]

    @property
    def taken(self) -> float:
        return float(self.metric.result())

    def marks(self, category: str) -> list[tuple[float, str]]:
        return [(mark.time_s, mark.lane) for mark in self.cluster.trace.instants.where(category=category)]

    def applied(self, worker: str) -> list[float]:
        """When updates of a worker were applied."""
        return [span.end_s for span in self.cluster.trace.spans.where(category="apply") if span.facts["worker"] == worker]

    def began(self, worker: str, category: str) -> float:
        """When the first of a worker's spans of a kind began."""
        return next(span.start_s for span in self.cluster.trace.spans if (span.lane, span.category) == (worker, category))


# -- workers that are silent --------------------------------------------------------------------------------------------


def test_a_short_pause_of_a_worker_costs_nothing_but_time() -> None:
    training = Training(lambda cluster: cluster.faults.pause("worker:1", at=0.22, until=4.0)).run(200)
    assert training.runs == [200.0, 200.0]
    assert training.taken == 200.0
    assert training.marks("retry") == training.marks("detect") == []


def test_a_closure_of_a_worker_that_is_silent_for_long_is_run_by_another() -> None:
    training = Training(lambda cluster: cluster.faults.pause("worker:1", at=0.22, until=8.3)).run(300)
    assert training.marks("detect") == training.marks("retry") == [(6.0, "worker:1")]
    # The paused worker goes on a little before it is heard, and sends what it had: servers refuse it, as its closure was given away.
    assert training.runs == [300.0, 300.0]
    assert training.taken == 300.0
    own = [span.start_s for span in training.cluster.trace.spans.where(lane="worker:1", category="compute")]
    assert min(start_s for start_s in own if start_s > 8.3) == pytest.approx(9.0, abs=0.01)


def test_a_worker_that_is_told_that_it_was_replaced_drops_what_it_had() -> None:
    """It goes on at 7.2 s, and is heard at 8 s: the sixteen bytes that it sends from 7.2 s on would be there at 9.2 s."""
    training = Training(lambda cluster: cluster.faults.pause("worker:1", at=0.2, until=7.2), network=SLOW).run(8)
    assert training.marks("retry") == [(6.0, "worker:1")]
    assert training.runs == [8.0, 8.0]
    assert training.taken == 8.0
    assert min(training.applied("worker:1")) > 8.0 + 2.0


def test_the_late_result_of_a_worker_that_was_replaced_is_refused() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    ran: list[float] = []

    def closure() -> int:
        sd.sleep(1.0)
        ran.append(cluster.now)
        return len(ran)

    cluster.faults.crash("worker:1", at=0.0, restart_after=5.0)
    cluster.faults.pause("worker:0", at=0.5, until=6.5)
    sd.sleep(0.01, cluster)
    value = coordinator.schedule(closure)
    coordinator.join()
    coordinator.schedule(lambda: sd.sleep(20.0))
    coordinator.join()
    assert ran == [pytest.approx(6.5), pytest.approx(7.0, abs=0.01)]
    assert value.fetch() == 2
    assert coordinator.queue.idle.keys() == {"worker:0", "worker:1"}


@pytest.mark.parametrize("pauses_at_s", [1.0, 4.0])
def test_a_worker_that_binds_arguments_when_it_is_told_that_it_was_replaced_takes_no_step(pauses_at_s: float) -> None:
    """Code of a user is not interrupted; what would follow it is not begun."""
    training = Training(lambda cluster: cluster.faults.pause("worker:1", at=pauses_at_s, until=10.2))

    def make() -> Any:
        sd.sleep(8.0)
        sd.sleep(3.0)  # in the midst of this one the worker is told, at 11 s
        return np.ones(4, np.float32)

    @sd.function(seconds=1.0)
    def step(given: Any) -> None:
        training.counts[0].assign_add(given * (training.counts[0].value * 0.0 + 1.0))

    ones = training.coordinator.create_per_worker_resource(make)
    for _ in range(12):
        training.coordinator.schedule(step, args=(ones,))
    training.coordinator.join()
    assert len(training.marks("retry")) == 1
    assert training.runs[0] == 12.0
    assert min(training.applied("worker:1")) == pytest.approx(10.2 + 3.0 + 1.0, abs=0.01)


@pytest.mark.parametrize("one_way", [True, False])
def test_replies_that_are_lost_are_made_up_for_by_another_worker(one_way: bool) -> None:
    plan = lambda cluster: cluster.faults.partition("worker:1", "chief", at=0.22, until=10.0, one_way=one_way)  # noqa: E731
    training = Training(plan).run(400)
    assert training.marks("detect") == training.marks("retry") == [(6.0, "worker:1")]
    assert training.runs == [401.0, 401.0]
    assert training.taken == 400.0


def test_a_closure_that_never_reached_its_worker_is_sent_again_after_its_time_out() -> None:
    training = Training(lambda cluster: cluster.faults.partition("chief", "worker:1", at=0.22, until=10.0, one_way=True)).run(100)
    assert training.marks("detect") == []
    ((retry_s, worker),) = training.marks("retry")
    sent_s = [span.end_s for span in training.cluster.trace.spans.where(lane="worker:1", category="closure") if span.end_s < 1.0][-1]
    assert worker == "worker:1"
    assert retry_s == pytest.approx(sent_s + LATENCY_S + TIMEOUT_S)
    assert training.runs == [100.0, 100.0]
    assert training.taken == 100.0


# -- ways to the servers that lose messages -------------------------------------------------------------------------------


@pytest.mark.parametrize("one_way", [True, False])
def test_bytes_of_a_push_that_are_lost_are_pushed_again_after_its_time_out(one_way: bool) -> None:
    calm = Training(network=SLOW).run(2)
    push_s = calm.began("worker:1", "update")
    plan = lambda cluster: cluster.faults.partition("worker:1", "ps:0", at=push_s + 1.0, until=push_s + 1.5, one_way=one_way)  # noqa: E731
    training = Training(plan, network=SLOW).run(2)
    assert training.marks("retry") == [(pytest.approx(push_s + TIMEOUT_S + LATENCY_S), "worker:1")]
    assert training.runs == [2.0, 3.0], "the other server, to which nothing was lost, counts both times"
    assert training.taken == 2.0


@pytest.mark.parametrize("one_way", [True, False])
def test_bytes_of_a_read_that_are_lost_are_read_again_after_its_time_out(one_way: bool) -> None:
    calm = Training(network=SLOW).run(2)
    read_s = calm.began("worker:1", "read")
    plan = lambda cluster: cluster.faults.partition("ps:0", "worker:1", at=read_s + 1.0, until=read_s + 1.5, one_way=one_way)  # noqa: E731
    training = Training(plan, network=SLOW).run(2)
    assert training.marks("retry") == [(pytest.approx(read_s + TIMEOUT_S + LATENCY_S), "worker:1")]
    assert training.runs == [2.0, 2.0]


def test_an_update_whose_confirmation_was_lost_has_taken_effect_and_is_made_again() -> None:
    push_s = Training(network=SLOW).run(2).began("worker:1", "update")
    plan = lambda cluster: cluster.faults.partition("ps:0", "worker:1", at=push_s + 1.0, until=push_s + 10.0, one_way=True)  # noqa: E731
    training = Training(plan, network=SLOW).run(2)
    assert training.marks("retry") == [(pytest.approx(push_s + TIMEOUT_S + LATENCY_S), "worker:1")]
    assert training.runs == [3.0, 3.0]
    assert training.taken == 2.0


def test_a_way_that_never_opens_again_is_an_error_after_six_tries() -> None:
    training = Training(lambda cluster: cluster.faults.partition(["worker:0", "worker:1"], "ps:1", at=0.22))
    with pytest.raises(sd.errors.TimedOutError, match="ps:1 did not answer worker:0 within 30 s"):
        training.run(20)
    began_s = training.cluster.now - 6 * TIMEOUT_S
    assert 0.2 < began_s < 0.2 + 7 * 0.051  # and each of them computes
    assert len(training.marks("retry")) == 2 * 5
    training.coordinator.join()  # the error is given once
    assert training.taken == training.runs[1] <= 10.0


def test_the_error_inside_is_a_time_out_that_says_who_did_not_answer() -> None:
    training = Training(lambda cluster: cluster.faults.partition("worker:0", "ps:0", at=0.0), workers=1, servers=1)
    sd.sleep(1e-6, training.cluster)
    value = training.coordinator.schedule(training.step)
    with pytest.raises(sd.errors.TimedOutError):
        training.coordinator.join()
    with pytest.raises(sd.errors.TimedOutError, match="ps:0 did not answer worker:0 within 30 s"):
        value.fetch()


# -- servers that are silent --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [0.25, 0.5, 0.999])
@pytest.mark.parametrize("lasts_s", [3.0, 50.0])
def test_a_server_that_is_paused_in_the_middle_of_an_update_applies_it_once(part: float, lasts_s: float) -> None:
    hardware = sd.hardware.Device(launch_overhead=0.1)
    apply = next(
        span for span in Training(hardware=hardware).run(1).cluster.trace.spans if span.lane == "ps:0" and span.category == "apply"
    )
    at = apply.start_s + part * (apply.end_s - apply.start_s)
    training = Training(lambda cluster: cluster.faults.pause("ps:0", at=at, until=at + lasts_s), hardware=hardware).run(6)
    retries = 0 if lasts_s < TIMEOUT_S else 2
    assert len(training.marks("retry")) == retries
    assert training.runs == [6.0, 6.0 + retries], "the other server is sent its part again, too"
    assert training.taken == 6.0


# -- runs that are the same ---------------------------------------------------------------------------------------------


def test_a_fault_that_never_fires_changes_nothing_but_warns() -> None:
    def digest(plan: Plan | None) -> str:
        training = Training(plan).run(20)
        return training.cluster.trace.digest()

    calm = digest(None)
    assert digest(lambda cluster: cluster.faults.pause("worker:1", at=1e3, until=2e3)) == calm
    assert digest(lambda cluster: cluster.faults.partition("worker:1", "ps:0", when=lambda _: False)) == calm
    training = Training(lambda cluster: cluster.faults.pause("worker:1", at=1e3))
    with pytest.warns(UserWarning, match=r"pause\('worker:1', at=1000.0\) never fired"):
        training.cluster.close()


def test_the_same_seed_gives_the_same_run_with_the_same_faults() -> None:
    def digest() -> str:
        def plan(cluster: sd.Cluster) -> None:
            cluster.faults.pause("worker:1", after_steps=3, until=8.0)
            cluster.faults.pause("ps:0", at=1.0, until=4.0)
            cluster.faults.partition("worker:0", ["ps:0", "ps:1"], at=2.0, until=2.5)

        return Training(plan).run(40).cluster.trace.digest()

    assert digest() == digest()


# -- any faults ---------------------------------------------------------------------------------------------------------

TASKS = ["worker:0", "worker:1", "worker:2", "ps:0", "ps:1"]
MOMENTS_S = st.floats(0.0, 3.0) | st.floats(0.0, 60.0)
LENGTHS_S = st.floats(1e-5, 1.0) | st.floats(1.0, 60.0)
PAUSES = st.tuples(st.just("pause"), st.sampled_from(TASKS), st.just(""), MOMENTS_S, LENGTHS_S, st.just(False))
CUTS = st.tuples(
    st.just("partition"), st.sampled_from(TASKS), st.sampled_from(["chief:0", *TASKS]), MOMENTS_S, LENGTHS_S, st.booleans()
).filter(lambda drawn: drawn[1] != drawn[2])
FAULTS = st.lists(PAUSES | CUTS, min_size=1, max_size=4)
CLOSURES = 60


def survives(faults: list[tuple[str, str, str, float, float, bool]]) -> None:
    def plan(cluster: sd.Cluster) -> None:
        for kind, one, other, at, lasts_s, one_way in faults:
            if kind == "pause":
                cluster.faults.pause(one, at=at, until=at + lasts_s)
            else:
                cluster.faults.partition(one, other, at=at, until=at + lasts_s, one_way=one_way)

    training = Training(plan, workers=3).run(CLOSURES)
    assert min(training.runs) >= CLOSURES
    assert training.taken == CLOSURES
    assert training.cluster.now < 300.0
    retries = len(training.marks("retry"))
    assert max(training.runs) <= CLOSURES + retries
    assert training.coordinator.queue.pending == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fault that was drawn late may not have come
        training.cluster.close()


@given(FAULTS)
def test_every_closure_ends_whatever_is_silent_for_a_while(faults: list[tuple[str, str, str, float, float, bool]]) -> None:
    survives(faults)


@pytest.mark.exhaustive
@settings(max_examples=2_000)
@given(FAULTS)
def test_every_closure_ends_whatever_is_silent_for_a_while_in_many_runs(faults: list[tuple[str, str, str, float, float, bool]]) -> None:
    survives(faults)


@pytest.mark.parametrize("pause_s", [(0.02, 0.05), (0.05, 0.35)], ids=["within", "beyond its end"])
def test_a_round_that_a_paused_server_applies_ends_later_by_the_length_of_the_pause(pause_s: tuple[float, float]) -> None:
    hardware = {"ps": sd.hardware.Device(launch_overhead=0.1), "worker": sd.hardware.Device()}
    cluster = sd.Cluster({"worker": 1, "ps": 1}, hardware=hardware, numerics="off")
    begin_s, end_s = pause_s
    cluster.faults.pause("ps:0", at=begin_s, until=end_s)
    strategy = sd.ParameterServerStrategy(cluster, mode="sync")
    with strategy.scope():
        count = sd.Variable(0.0)
    coordinator = sd.ClusterCoordinator(strategy)
    step = sd.function(lambda: count.assign_add(count.value * 0.0 + 1.0))
    closures = [coordinator.schedule(step) for _ in range(2)]
    coordinator.join()
    assert [closure.state for closure in closures] == ["ready", "ready"]
    first, second = [span for span in cluster.trace.spans if span.category == "apply"]
    read = [span for span in cluster.trace.spans if span.category == "read"][1]
    assert first.end_s - first.start_s == pytest.approx(0.1 + end_s - begin_s)
    assert second.end_s - second.start_s == pytest.approx(0.1) and first.end_s < read.end_s < second.start_s
