"""Heartbeats: what they find, and that those which find nothing cost nothing."""

from __future__ import annotations

import math
from typing import Any

import pytest

import simdist as sd
from simdist.hardware import Network
from simdist.runtime.simulated.detection import Detection


def beats(cluster: sd.Cluster, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The moments of all heartbeats from now on."""
    times: list[float] = []
    beat = Detection._beat

    def noted(detection: Detection) -> None:
        times.append(cluster.now)
        beat(detection)

    monkeypatch.setattr(Detection, "_beat", noted)
    return times


def watched(workers: int = 2, **options: Any) -> tuple[sd.Cluster, sd.ClusterCoordinator]:
    cluster = sd.Cluster({"worker": workers, "ps": 1}, **options)
    return cluster, sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))


def test_ten_million_idle_heartbeats_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    times = beats(cluster, monkeypatch)
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    for worker in ("worker:0", "worker:1"):
        cluster.faults.crash(worker, at=0.1, restart_after=1e7)
    coordinator.schedule(lambda: sd.sleep(3.0))
    coordinator.join()
    assert cluster.now == pytest.approx(1e7 + 3.1, abs=0.01)
    assert len(times) < 20
    # They keep their rhythm: whole seconds since the first.
    assert all(time_s == math.floor(time_s) for time_s in times)


def test_a_silent_task_is_noticed_in_the_midst_of_idle_time() -> None:
    cluster, coordinator = watched()
    coordinator.schedule(lambda: sd.sleep(100.0))

    def main() -> None:
        sd.sleep(40.5)
        # A host that is gone without a word: nobody resets its connections, and no heartbeat comes.
        task = cluster.world.tasks["worker:1"]
        task.process.alive = False

    cluster.world.start(cluster.world.tasks["ps:0"], main)
    coordinator.join()
    (found,) = cluster.trace.instants.where(category="detect")
    assert (found.lane, found.facts["reason"]) == ("worker:1", "silent for 6.0 s")
    assert found.time_s == 46.0


@pytest.mark.parametrize("figure", [{"latency": math.inf}, {"latency": math.nan}, {"intra_host_latency": math.inf}])
def test_a_latency_without_an_end_is_refused(figure: dict[str, float]) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match="latency"):
        Network(**figure)


def test_a_message_that_never_arrives_is_an_error_and_no_hang() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1}, network=Network(bandwidth=1e-15))
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        variable = sd.Variable([1.0])
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(sd.function(lambda: variable.assign_add([1.0])))
    with pytest.raises(sd.errors.DeadlineExceededError):
        coordinator.join()


def test_a_task_that_nobody_watches_is_not_believed_in_because_it_started_again() -> None:
    cluster = sd.Cluster({"worker": 1})
    for at in (0.1, 0.3):
        cluster.faults.crash("worker:0", at=at, restart_after=0.1)
    sd.sleep(10.0, cluster)
    assert cluster.world.detection.membership.beliefs == {}
    assert len(cluster.trace.instants.where(category="detect")) == 0


def test_a_new_life_is_known_no_earlier_than_a_message_could_have_come() -> None:
    cluster, _ = watched(1, network=Network(latency=2.0))
    seen: list[tuple[float, str, int]] = []
    cluster.world.detection.listeners.append(lambda change: seen.append((cluster.now, change.kind, change.incarnation)))
    cluster.faults.crash("worker:0", at=0.1, restart_after=0.5)
    sd.sleep(6.0, cluster)
    assert seen == [(pytest.approx(2.1), "down", 0), (pytest.approx(2.6), "up", 1)]


# -- silence ------------------------------------------------------------------------------------------------------------


def changes(cluster: sd.Cluster) -> list[tuple[float, str, str]]:
    """What the chief comes to believe from now on: when, of whom, and what."""
    seen: list[tuple[float, str, str]] = []
    cluster.world.detection.listeners.append(lambda change: seen.append((cluster.now, change.task, change.kind)))
    return seen


SILENCES = {
    "paused": lambda cluster, **when: cluster.faults.pause("worker:1", **when),
    "cut off": lambda cluster, **when: cluster.faults.partition("chief", "worker:1", **when),
    "mute": lambda cluster, **when: cluster.faults.partition("worker:1", "chief", one_way=True, **when),
}


@pytest.mark.parametrize("silence", SILENCES)
@pytest.mark.parametrize("at", [0.2, 1.0, 7.0, 7.9999, 1e7 + 0.5])
@pytest.mark.parametrize("lasts_s", [4.0, 10.3, 1e6])
def test_a_silent_task_is_believed_down_after_its_silence_and_up_when_it_is_heard(silence: str, at: float, lasts_s: float) -> None:
    cluster, _ = watched()
    seen = changes(cluster)
    SILENCES[silence](cluster, at=at, until=at + lasts_s)
    sd.sleep(at + lasts_s + 10.0, cluster)
    # The last heartbeat was that of a whole second before the silence, give or take the one of its own moment; the chief looks
    # each second, and has waited for more than five.
    heard_s = math.ceil(at) - 1
    if lasts_s < 5.0:
        assert seen == []
        return
    (down_s, down, first), (up_s, up, second) = seen
    assert (down, first, up, second) == ("worker:1", "down", "worker:1", "up")
    assert down_s in (heard_s + 6.0, heard_s + 7.0)
    assert down_s - at >= 5.0
    assert at + lasts_s <= up_s <= at + lasts_s + 1.0 + 1e-3


def test_a_task_that_does_not_hear_the_chief_is_heard_by_it() -> None:
    cluster, _ = watched()
    seen = changes(cluster)
    cluster.faults.partition("chief", "worker:1", at=0.2, one_way=True)
    sd.sleep(100.0, cluster)
    assert seen == []


def test_nobody_but_the_chief_notices_that_a_task_is_silent() -> None:
    cluster, _ = watched(workers=3)
    seen = changes(cluster)
    cluster.faults.partition("worker:1", ["worker:0", "worker:2", "ps:0"], at=0.2)
    sd.sleep(100.0, cluster)
    assert seen == []
    assert len(cluster.trace.instants.where(category="detect")) == 0


@pytest.mark.parametrize("silence", SILENCES)
@pytest.mark.parametrize("until", [40.0, 40.5, 40.9999, 41.0, 1e6 + 0.5])
def test_a_wait_for_the_only_worker_ends_after_it_is_heard_again(silence: str, until: float) -> None:
    cluster, coordinator = watched()
    cluster.faults.crash("worker:0", at=0.0)
    SILENCES[silence](cluster, at=0.2, until=until)
    value = coordinator.schedule(lambda: (sd.sleep(1.0), cluster.now)[1])
    coordinator.join()
    assert until + 1.0 <= value.fetch() <= until + 2.1


@pytest.mark.parametrize("silence", SILENCES)
def test_a_wait_for_a_worker_that_is_silent_for_ever_is_an_error_that_says_who_waits(silence: str) -> None:
    cluster, coordinator = watched()
    cluster.faults.crash("worker:0", at=0.0)
    SILENCES[silence](cluster, at=0.2)
    coordinator.schedule(lambda: sd.sleep(1.0))
    with pytest.raises(sd.errors.DeadlineExceededError, match=r"1 closures \(join: .*worker:1 .*waits? for .*until="):
        coordinator.join()
    assert cluster.now <= 31.0


def test_heartbeats_of_many_tasks_through_a_long_idle_time_are_no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, coordinator = watched(workers=100)
    times = beats(cluster, monkeypatch)
    events: list[int] = []
    after = type(cluster.world.clock).after
    monkeypatch.setattr(type(cluster.world.clock), "after", lambda *args: (events.append(1), after(*args))[1])
    cluster.faults.pause("worker:7", at=1e6, until=2e6)
    coordinator.schedule(lambda: sd.sleep(3e6))
    coordinator.join()
    assert len(times) < 40
    assert len(events) < 200
    assert len(cluster.trace.instants.where(category="detect")) == 1


@pytest.mark.parametrize("fault", ["pause", "partition"])
def test_who_waits_for_a_worker_that_was_silent_waits_until_it_is_heard_again(fault: str) -> None:
    cluster, coordinator = watched(workers=1)
    if fault == "pause":
        cluster.faults.pause("worker:0", at=0.5, until=40.2)
    else:
        cluster.faults.partition("worker:0", "chief:0", at=0.5, until=40.2)
    values = [coordinator.schedule(lambda: sd.sleep(1.0)) for _ in range(2)]
    coordinator.join()
    assert [value.fetch() for value in values] == [None, None]
    assert len(cluster.trace.instants.where(category="detect")) == 1


def test_a_paused_worker_learns_of_the_death_of_its_server_when_it_goes_on() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1}, network=Network(latency=0.2))
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        variable = sd.Variable([1.0])
    coordinator = sd.ClusterCoordinator(strategy)
    cluster.faults.pause("worker:0", at=0.3, until=3.0)
    cluster.faults.crash("ps:0", at=0.35)
    coordinator.schedule(sd.function(lambda: variable.assign_add([1.0])))
    with pytest.raises(sd.errors.UnavailableError):
        coordinator.join()
    (closure,) = cluster.trace.spans.where(category="closure")
    assert closure.end_s >= 3.0
