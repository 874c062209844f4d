"""Pauses and partitions of replicas that train together from one notebook: nothing is lost but time, and nobody waits for ever."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simdist as sd
from sampling import examples
from simdist.hardware import Network
from tests.strategies.silent_training import SLOW, TIMEOUT_S, Plan, build, close


class Driven:
    """Three replicas that one program drives."""

    def __init__(self, plan: Plan | None = None, network: Network | None = None, **options: Any) -> None:
        self.cluster = sd.Cluster({"worker": 3}, seed=0, network=network)
        self.strategy = sd.MultiWorkerMirroredStrategy(self.cluster, **options)
        self.w, self.step = build(self.strategy)
        if plan is not None:
            plan(self.cluster)

    def run(self, steps: int) -> Driven:
        for _ in range(steps):
            self.step()
        return self

    def marks(self, category: str) -> list[tuple[float, str]]:
        return [(mark.time_s, mark.name) for mark in self.cluster.trace.instants.where(category=category)]

    def memory(self) -> dict[str, float]:
        return {f"worker:{n}": self.cluster.engine.memory(f"worker:{n}").in_use_bytes for n in range(3)}

    def spans(self, lane: str, category: str) -> list[Any]:
        return list(self.cluster.trace.spans.where(lane=lane, category=category))


# -- one program, which needs all -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0.02, 0.0501, 0.12])
def test_a_short_pause_of_a_replica_costs_nothing_but_time(at: float) -> None:
    calm, driven = Driven().run(8), Driven(lambda cluster: cluster.faults.pause("worker:1", at=at, until=at + 4.0)).run(8)
    close(driven.w, 8)
    np.testing.assert_array_equal(driven.w.numpy(), calm.w.numpy())
    assert driven.cluster.now == pytest.approx(calm.cluster.now + 4.0, abs=0.051)
    assert driven.marks("detect") == []


def test_a_replica_that_is_silent_for_long_is_an_error_and_the_step_can_be_taken_again() -> None:
    driven = Driven(lambda cluster: cluster.faults.pause("worker:1", at=0.12, until=20.0))
    with pytest.raises(sd.errors.UnavailableError, match="worker:1 is silent") as raised:
        driven.run(8)
    assert not isinstance(raised.value, sd.errors.TimedOutError)
    assert driven.marks("detect") == [(6.0, "worker:1 is down")]
    close(driven.w, 2)
    with pytest.raises(sd.errors.UnavailableError, match="worker:1 is silent"):
        driven.step()
    sd.sleep(21.0 - driven.cluster.now, driven.cluster)
    driven.step()
    assert driven.spans("worker:1", "compute")[-1].start_s >= 21.0


def test_a_replica_does_not_begin_a_step_while_it_is_paused() -> None:
    driven = Driven(lambda cluster: cluster.faults.pause("worker:1", at=1.0, until=3.0)).run(1)
    sd.sleep(2.0 - driven.cluster.now, driven.cluster)
    driven.step()
    assert driven.spans("worker:0", "compute")[-1].start_s == 2.0
    assert driven.spans("worker:1", "compute")[-1].start_s == 3.0
    close(driven.w, 2)


def test_a_replica_that_is_paused_when_the_last_one_comes_sends_nothing_before_it_goes_on() -> None:
    def plan(cluster: sd.Cluster) -> None:
        cluster.faults.slow("worker:2", 10.0, at=0.0)  # comes at 0.5 s, the others at 0.05 s
        cluster.faults.pause("worker:1", at=0.1, until=4.0)

    driven, flows = Driven(plan, network=SLOW), list[int]()
    link = next(link for link in driven.cluster.world.fabric.links() if link.name == "worker:1/out")
    for moment_s in (0.6, 3.9, 4.1):
        driven.cluster.world.clock.after_daemon(moment_s, lambda: flows.append(len(link.flows) + (link.quiet is not None)))
    sd.sleep(1e-6, driven.cluster)
    driven.run(1)
    assert flows == [0, 0, 1]
    close(driven.w, 1)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_partition_that_heals_in_the_middle_of_a_collective_is_a_time_out_that_leaves_no_mark(part: float) -> None:
    meeting = Driven(network=SLOW).run(1).spans("worker:1", "collective")[0]
    at = meeting.start_s + part * (meeting.end_s - meeting.start_s)
    driven = Driven(lambda cluster: cluster.faults.partition("worker:1", ["worker:0", "worker:2"], at=at, until=at + 0.1), network=SLOW)
    with pytest.raises(sd.errors.TimedOutError, match="bytes were lost"):
        driven.step()
    assert driven.cluster.now == pytest.approx(meeting.start_s + TIMEOUT_S)
    close(driven.w, 0)


def test_with_a_time_out_of_its_own_an_exchange_that_somebody_does_not_come_to_ends_as_before() -> None:
    options = sd.CommunicationOptions(timeout_seconds=2.0)
    driven = Driven(lambda cluster: cluster.faults.pause("worker:1", at=0.02, until=20.0), communication_options=options)
    with pytest.raises(sd.errors.DeadlineExceededError, match="worker:1 did not come"):
        driven.step()
    assert driven.cluster.now == pytest.approx(0.05 + 2.0, abs=1e-3)


# -- going on with the others -------------------------------------------------------------------------------------------


def test_a_silent_replica_leaves_comes_back_and_has_what_the_others_have() -> None:
    calm, driven = Driven(on_failure="continue"), Driven(lambda c: c.faults.pause("worker:1", at=0.12, until=7.0), on_failure="continue")
    before = driven.memory()
    calm.run(40), driven.run(40)
    close(driven.w, 40)
    np.testing.assert_allclose(driven.w.numpy(), calm.w.numpy(), rtol=0, atol=2e-6)
    (left_s, left), (joined_s, joined) = driven.marks("resize")
    assert (left_s, left, joined) == (6.0, "leave: 2 replicas", "join: 3 replicas")
    assert 7.0 < joined_s < 8.0
    assert driven.memory() == calm.memory()
    assert before.keys() == driven.memory().keys()
    assert driven.strategy.num_replicas_in_sync == 3
    # Its copies are those of the others: it can be the only one that is left.
    driven.cluster.faults.crash("worker:0", at=driven.cluster.now + 0.01)
    driven.cluster.faults.crash("worker:2", at=driven.cluster.now + 0.02)
    driven.run(5)
    assert driven.strategy.num_replicas_in_sync == 1
    assert driven.marks("resize")[-1][1] == "leave: 1 replica"
    close(driven.w, 45)


def test_while_it_is_away_a_silent_replica_holds_nothing_that_counts() -> None:
    driven = Driven(lambda cluster: cluster.faults.pause("worker:1", at=0.12), on_failure="continue").run(20)
    close(driven.w, 20)
    assert driven.marks("resize") == [(6.0, "leave: 2 replicas")]
    assert driven.memory()["worker:1"] == 0
    assert driven.memory()["worker:0"] == driven.memory()["worker:2"] > 0


def test_a_replica_that_is_silent_crashes_and_starts_again_joins_once() -> None:
    def plan(cluster: sd.Cluster) -> None:
        cluster.faults.pause("worker:1", at=0.12, until=30.0)
        cluster.faults.crash("worker:1", at=6.5, restart_after=0.3)

    driven = Driven(plan, on_failure="continue").run(60)
    close(driven.w, 60)
    assert [name for _, name in driven.marks("resize")] == ["leave: 2 replicas", "join: 3 replicas"]
    assert driven.memory() == Driven(on_failure="continue").run(2).memory()


def test_a_replica_that_starts_again_where_the_driver_does_not_hear_it_stays_away_and_its_next_death_stops_nobody() -> None:
    def plan(cluster: sd.Cluster) -> None:
        cluster.faults.partition(["worker:1"], ["chief:0"], at=0.01, one_way=True)
        cluster.faults.lose_host("worker:1", at=0.12, restart_after=0.5)
        cluster.faults.lose_host("worker:1", at=7.0, restart_after=0.5)

    driven = Driven(plan, on_failure="continue").run(30)
    close(driven.w, 30)
    assert [name for _, name in driven.marks("resize")] == ["leave: 2 replicas"]


def test_a_partition_between_members_is_waited_out_and_the_same_batch_is_taken_again() -> None:
    plan = lambda cluster: cluster.faults.partition("worker:1", ["worker:0", "worker:2"], at=0.12, until=7.0)  # noqa: E731
    driven = Driven(plan, on_failure="continue").run(10)
    assert driven.marks("resize") == driven.marks("detect") == []
    assert driven.cluster.now > TIMEOUT_S
    close(driven.w, 10)


def test_a_partition_between_members_that_never_heals_is_a_time_out_after_six_tries() -> None:
    driven = Driven(lambda cluster: cluster.faults.partition("worker:1", ["worker:0", "worker:2"], at=0.12), on_failure="continue")
    with pytest.raises(sd.errors.TimedOutError):
        driven.run(10)
    assert 6 * TIMEOUT_S < driven.cluster.now < 6 * TIMEOUT_S + 1.0
    close(driven.w, 2)


def joining(plan: Plan | None = None) -> Driven:
    """Worker 1 was silent, and comes back; its copy of the variables takes three seconds."""

    def both(cluster: sd.Cluster) -> None:
        cluster.faults.pause("worker:1", at=0.02, until=7.5)
        if plan is not None:
            plan(cluster)

    return Driven(both, network=SLOW, on_failure="continue")


def copied(driven: Driven) -> Any:
    return next(span for span in driven.cluster.trace.spans if span.name == "variables of a survivor")


@pytest.mark.parametrize("lasts_s", [0.5, 60.0])
@pytest.mark.parametrize("one_way", [True, False])
@pytest.mark.sample
def test_a_join_whose_bytes_are_lost_is_tried_again_from_another_survivor(lasts_s: float, one_way: bool) -> None:
    span = copied(joining().run(12))
    at = span.start_s + 0.5
    driven = joining(lambda cluster: cluster.faults.partition("worker:0", "worker:1", at=at, until=at + lasts_s, one_way=one_way)).run(12)
    close(driven.w, 12)
    assert copied(driven).start_s == pytest.approx(span.start_s + TIMEOUT_S)
    assert [name for _, name in driven.marks("resize")] == ["leave: 2 replicas", "join: 3 replicas"]


def test_a_replica_that_no_survivor_reaches_stays_away() -> None:
    plan = lambda cluster: cluster.faults.partition("worker:1", ["worker:0", "worker:2"], at=7.0)  # noqa: E731
    driven = joining(plan).run(5)
    close(driven.w, 5)
    assert [name for _, name in driven.marks("resize")] == ["leave: 2 replicas"]
    assert driven.memory()["worker:1"] == 0


@pytest.mark.parametrize("until", [None, 200.0])
@pytest.mark.parametrize("silent", ["worker:1", "worker:0"])
def test_a_join_during_which_one_of_the_two_falls_silent_ends(silent: str, until: float | None) -> None:
    at = copied(joining().run(12)).start_s + 0.5
    driven = joining(lambda cluster: cluster.faults.pause(silent, at=at, until=until)).run(12)
    close(driven.w, 12)


def test_a_survivor_that_is_paused_sends_nothing_before_it_goes_on() -> None:
    driven = joining(lambda cluster: cluster.faults.pause("worker:0", at=20.0, until=23.0))
    driven.run(1)  # in which worker:1 leaves
    sd.sleep(21.0 - driven.cluster.now, driven.cluster)
    driven.run(1)
    assert copied(driven).start_s == 21.0
    assert copied(driven).end_s == pytest.approx(23.0 + driven.memory()["worker:1"] / 16.0, abs=0.01)
    close(driven.w, 2)


def test_steps_that_are_tried_while_all_are_silent_lose_nothing() -> None:
    def silence(cluster: sd.Cluster) -> None:
        cluster.faults.crash("worker:2", at=0.12)
        for number in range(2):
            cluster.faults.pause(f"worker:{number}", at=0.3, until=30.0)

    driven, taken = Driven(silence, on_failure="continue"), 0
    while driven.cluster.now < 29.0:
        try:
            driven.run(1)
            taken += 1
        except sd.errors.UnavailableError as error:
            assert "worker:0, worker:1 are silent" in str(error) and "nothing is lost" in str(error)
            sd.sleep(5.0, driven.cluster)
    sd.sleep(60.0, driven.cluster)
    driven.run(12 - taken)
    close(driven.w, 12)
    assert driven.strategy.num_replicas_in_sync == 2


MOMENTS_S, LENGTHS_S = st.floats(0.0, 2.5), st.floats(1e-3, 1.0) | st.floats(1.0, 40.0)
FAULTS = st.lists(
    st.tuples(st.sampled_from(["pause", "peer", "chief", "crash"]), st.integers(0, 2), MOMENTS_S, LENGTHS_S, st.booleans()),
    min_size=1,
    max_size=3,
)


def survives(faults: list[tuple[str, int, float, float, bool]]) -> None:
    """Weights after these faults are those of plain gradient descent, and in the end all replicas are there and hold as much."""

    def plan(cluster: sd.Cluster) -> None:
        for kind, number, at, lasts_s, one_way in faults:
            worker, peer = f"worker:{number}", f"worker:{(number + 1) % 3}"
            if kind == "pause":
                cluster.faults.pause(worker, at=at, until=at + lasts_s)
            elif kind == "crash":
                cluster.faults.crash(worker, at=at, restart_after=lasts_s)
            else:
                cluster.faults.partition(worker, peer if kind == "peer" else "chief", at=at, until=at + lasts_s, one_way=one_way)

    driven = Driven(plan, on_failure="continue")
    for _ in range(60):
        try:
            driven.run(1)
        except sd.errors.UnavailableError as error:
            if "All replicas have died" in str(error):
                return
            assert "nothing is lost" in str(error)
            sd.sleep(60.0, driven.cluster)
            driven.run(1)
    sd.sleep(60.0, driven.cluster)
    driven.run(1)
    close(driven.w, 61)
    assert driven.strategy.num_replicas_in_sync == 3
    assert len(set(driven.memory().values())) == 1


@examples(15)
@given(FAULTS)
def test_nothing_but_time_is_lost_whatever_is_silent_or_dies_for_a_while(faults: list[tuple[str, int, float, float, bool]]) -> None:
    survives(faults)


@pytest.mark.exhaustive
@settings(max_examples=1_000)
@given(FAULTS)
def test_nothing_but_time_is_lost_whatever_is_silent_or_dies_in_many_runs(faults: list[tuple[str, int, float, float, bool]]) -> None:
    survives(faults)


# -- backup workers -----------------------------------------------------------------------------------------------------


def test_a_step_with_backup_workers_does_not_wait_for_one_that_is_paused() -> None:
    driven = Driven(lambda cluster: cluster.faults.pause("worker:1", at=0.12, until=4.0), backup_workers=1).run(20)
    assert driven.cluster.now < 20 * 0.052
    dropped = [mark.lane for mark in driven.cluster.trace.instants.where(category="drop") if mark.time_s > 0.12]
    assert dropped == ["worker:1"] * 18
    sd.sleep(5.0 - driven.cluster.now, driven.cluster)
    driven.run(3)
    assert np.isfinite(driven.w.numpy()).all()


# -- runs that are the same ---------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_run_with_the_same_faults() -> None:
    def digest() -> str:
        def plan(cluster: sd.Cluster) -> None:
            cluster.faults.pause("worker:1", after_steps=3, until=7.0)
            cluster.faults.partition("worker:2", "worker:0", at=7.2, until=7.25)

        return Driven(plan, on_failure="continue").run(30).cluster.trace.digest()

    assert digest() == digest()
