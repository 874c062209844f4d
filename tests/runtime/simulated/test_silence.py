"""Tasks that are paused: nothing of them happens, all of it happens afterwards, in its order, and nobody is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd
from simdist.hardware import Device, Network
from simdist.trace.records import Span

LATENCY_S = 0.01
SLOW = Network(bandwidth=1000.0, latency=LATENCY_S)  # bytes per second: 100 numbers take 0.4 s
APPLIES = Device(launch_overhead=0.1)


def training(hardware: Any = None) -> tuple[sd.Cluster, Any, sd.Variable]:
    """A cluster on whose worker a closure reads 400 bytes, computes, and pushes 400 bytes."""
    cluster = sd.Cluster({"worker": 1, "ps": 1}, network=SLOW, hardware=hardware or APPLIES)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        total = sd.Variable(np.zeros(100, np.float32))
    coordinator = sd.ClusterCoordinator(strategy)

    @sd.function
    def step() -> Any:
        total.assign_add(total.value * 0.0 + 1.0)
        return total.value.sum()

    return cluster, lambda: (coordinator.schedule(step), coordinator.join()), total


def records_at(cluster: sd.Cluster, lane: str, *moments_s: float) -> list[int]:
    """How much the trace says of a lane, filled in at these moments."""
    found: list[int] = []

    def count() -> None:
        found.append(sum(record.lane == lane for record in [*cluster.trace.spans, *cluster.trace.instants]))

    for moment_s in moments_s:
        cluster.world.clock.after_daemon(moment_s, count)
    return found


def span(cluster: sd.Cluster, lane: str, category: str) -> Span:
    return next(span for span in cluster.trace.spans if span.lane == lane and span.category == category)


def calm() -> sd.Cluster:
    cluster, step, _ = training()
    step()
    return cluster


@pytest.mark.parametrize("paused", ["worker:0", "ps:0"])
@pytest.mark.parametrize(("lane", "category"), [("worker:0", "read"), ("worker:0", "compute"), ("worker:0", "update"), ("ps:0", "apply")])
@pytest.mark.parametrize("part", [0.01, 0.5, 0.99])
@pytest.mark.sample
def test_nothing_of_a_paused_task_happens_and_nothing_is_lost(paused: str, lane: str, category: str, part: float) -> None:
    hit = span(calm(), lane, category)
    at = hit.start_s + part * (hit.end_s - hit.start_s)
    cluster, step, total = training()
    cluster.faults.pause(paused, at=at, until=at + 3.0)
    records = records_at(cluster, paused, at + 1e-9, at + 2.999)
    step()
    assert records[0] == records[1]
    np.testing.assert_array_equal(total.numpy(), np.ones(100))
    spans = cluster.trace.spans.where(lane=paused)
    assert not [span for span in spans if at < span.end_s < at + 3.0 - 1e-9]
    assert len(spans) == len(calm().trace.spans.where(lane=paused))
    assert len(cluster.trace.instants.where(category="retry")) == 0


def test_what_the_links_of_a_paused_task_carry_goes_on() -> None:
    push = span(calm(), "worker:0", "update")
    at = push.start_s + LATENCY_S + 0.1  # the bytes are on their way
    cluster, step, _ = training()
    cluster.faults.pause("worker:0", at=at, until=at + 3.0)
    step()
    assert span(cluster, "ps:0", "apply").start_s == pytest.approx(push.start_s + LATENCY_S + 0.4)
    assert span(cluster, "worker:0", "update").end_s == pytest.approx(at + 3.0)


def test_bytes_that_reach_a_paused_server_are_applied_when_it_goes_on() -> None:
    push = span(calm(), "worker:0", "update")
    cluster, step, _ = training()
    cluster.faults.pause("ps:0", at=push.start_s + LATENCY_S + 0.1, until=push.start_s + 2.0)
    step()
    apply = span(cluster, "ps:0", "apply")
    assert apply.start_s == pytest.approx(push.start_s + 2.0)
    assert span(cluster, "worker:0", "update").end_s == pytest.approx(apply.end_s + LATENCY_S)


def test_a_request_that_reaches_a_paused_server_is_answered_with_what_it_has_when_it_goes_on() -> None:
    cluster, step, _ = training()
    cluster.faults.pause("ps:0", at=LATENCY_S / 2, until=1.0)
    step()
    assert span(cluster, "worker:0", "read").end_s == pytest.approx(1.0 + LATENCY_S + 0.4)


@pytest.mark.parametrize(("until_s", "applies_s"), [(2.0, 3.0), (5.0, 0.1 + 4.9)])
def test_an_update_of_two_servers_is_confirmed_when_the_later_one_has_applied_it(until_s: float, applies_s: float) -> None:
    """ps:0 is paused while it applies; ps:1 is slow, and takes three seconds."""
    cluster = sd.Cluster({"worker": 1, "ps": 2}, network=Network(latency=LATENCY_S), hardware=APPLIES)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        variables = [sd.Variable(np.zeros(2, np.float32)) for _ in range(2)]
        optimizer = sd.Optimizer(optax.sgd(1.0))
    coordinator = sd.ClusterCoordinator(strategy)

    @sd.function(seconds=0.0)
    def step() -> None:
        optimizer.apply_gradients([(np.ones(2, np.float32), variable) for variable in variables])

    cluster.faults.slow("ps:1", 30.0, at=0.0)
    sd.sleep(1e-3, cluster)
    coordinator.schedule(step)
    cluster.faults.pause("ps:0", at=0.1, until=until_s)
    coordinator.join()
    update, began_s = span(cluster, "worker:0", "update"), min(s.start_s for s in cluster.trace.spans.where(category="apply"))
    assert began_s < 0.1 < began_s + 0.1
    assert update.end_s == pytest.approx(began_s + applies_s + LATENCY_S)


# -- code of users ------------------------------------------------------------------------------------------------------


def launched(main: Any, workers: int = 1) -> tuple[sd.Cluster, Any]:
    cluster = sd.Cluster({"worker": workers})
    return cluster, lambda: cluster.launch(main).join()


@pytest.mark.parametrize(("until", "wakes_s"), [(0.7, 1.0), (1.5, 1.5), (200.0, 200.0)])
def test_a_main_sleeps_on_while_it_is_paused_and_wakes_no_earlier(until: float, wakes_s: float) -> None:
    woke: list[float] = []
    cluster, join = launched(lambda: (sd.sleep(1.0), woke.append(cluster.now)))
    cluster.faults.pause("worker:0", at=0.5, until=until)
    join()
    assert woke == [pytest.approx(wakes_s)]


def test_a_plain_closure_stands_still_while_its_worker_is_paused() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    cluster.faults.pause("worker:0", at=0.5, until=4.0)
    value = coordinator.schedule(lambda: [(sd.sleep(0.4), cluster.now)[1] for _ in range(3)])
    coordinator.join()
    assert value.fetch() == pytest.approx([0.4, 4.0, 4.4], abs=1e-3)


def test_a_main_that_would_start_during_a_pause_starts_after_it() -> None:
    began: list[float] = []
    cluster, _ = launched(None)
    cluster.faults.pause("worker:0", at=0.1, until=0.9)
    sd.sleep(0.5, cluster)
    cluster.launch(lambda: began.append(cluster.now)).join()
    assert began == [0.9]


def test_a_main_that_would_start_again_during_a_pause_does_so_after_it() -> None:
    began: list[float] = []

    def main() -> None:
        began.append(cluster.now)
        if len(began) == 1:
            sd.sleep(0.1)
            raise sd.errors.UnavailableError("a disk was full")

    cluster = sd.Cluster({"worker": 1})
    cluster.faults.pause("worker:0", at=0.5, until=3.0)  # in the second before the main starts again
    cluster.launch(main, restart="always").join()
    assert began == [0.0, 3.0]
    (again,) = cluster.trace.instants.where(category="restart")
    assert again.time_s == 3.0


def test_timers_and_words_of_a_pause_happen_in_their_order() -> None:
    """Three fibers of one task and words to it, due at different moments of its pause."""
    cluster = sd.Cluster({"worker": 2})
    world, seen = cluster.world, list[tuple[float, str]]()
    task, other = world.tasks["worker:0"], world.tasks["worker:1"]
    for delay_s in (0.7, 0.3, 0.5):
        world.start(task, lambda delay_s=delay_s: (sd.sleep(delay_s, cluster), seen.append((cluster.now, f"timer {delay_s}"))))

    def talk() -> None:
        for number in range(3):
            sd.sleep(0.2, cluster)
            world.routes.post(other, task, "notice", lambda content: seen.append((cluster.now, content)), f"word {number}")

    world.start(other, talk)
    cluster.faults.pause("worker:0", at=0.1, until=2.0)
    sd.sleep(3.0, cluster)
    assert [what for _, what in seen] == ["word 0", "timer 0.3", "word 1", "timer 0.5", "word 2", "timer 0.7"]
    assert {time_s for time_s, _ in seen} == {2.0}


# -- several ------------------------------------------------------------------------------------------------------------


def paused_at(cluster: sd.Cluster, *moments_s: float) -> list[bool]:
    found: list[bool] = []
    for moment_s in moments_s:
        sd.sleep(moment_s - cluster.now, cluster)
        found.append(cluster.world.tasks["worker:0"].held is not None)
    return found


@pytest.mark.parametrize(
    ("pauses", "expected"),
    [
        ([(0.1, 0.5), (0.3, 0.9)], [False, True, True, True, False]),
        ([(0.1, 0.9), (0.3, 0.5)], [False, True, True, True, False]),
        ([(0.1, 0.3), (0.3, 0.5)], [False, True, True, False, False]),
        ([(0.1, 0.9), (0.1, 0.9)], [False, True, True, True, False]),
        ([(0.1, None), (0.3, 0.5)], [False, True, True, True, True]),
    ],
)
def test_a_task_goes_on_when_the_last_of_its_pauses_has_ended(pauses: list[tuple[float, float | None]], expected: list[bool]) -> None:
    cluster = sd.Cluster({"worker": 1})
    for at, until in pauses:
        cluster.faults.pause("worker:0", at=at, until=until)
    assert paused_at(cluster, 0.05, 0.2, 0.4, 0.7, 1.0) == expected


def test_a_pause_that_begins_where_another_ends_holds_what_the_first_has_held() -> None:
    cluster = sd.Cluster({"worker": 2})
    world, heard = cluster.world, list[float]()
    cluster.faults.pause("worker:0", at=0.1, until=1.0)
    sd.sleep(0.5, cluster)
    cluster.faults.pause("worker:0", at=1.0, until=2.0)  # planned last: it begins after the heal, in the same moment
    world.routes.post(world.tasks["worker:1"], world.tasks["worker:0"], "notice", lambda _: heard.append(cluster.now))
    sd.sleep(3.0, cluster)
    assert heard == [2.0]


def test_a_process_that_was_started_again_is_not_paused_and_the_old_heal_does_nothing() -> None:
    cluster = sd.Cluster({"worker": 1})
    cluster.faults.pause("worker:0", at=0.1, until=0.5)
    cluster.faults.crash("worker:0", at=0.2, restart_after=0.1)
    cluster.faults.pause("worker:0", at=0.4, until=0.9)
    assert paused_at(cluster, 0.15, 0.25, 0.35, 0.45, 0.55, 0.95) == [True, False, False, True, True, False]
    assert cluster.world.tasks["worker:0"].incarnation == 1


def test_what_a_paused_process_held_dies_with_it() -> None:
    ran: list[int] = []

    def main() -> None:
        incarnation = cluster.world.tasks["worker:0"].incarnation
        sd.sleep(0.3)
        ran.append(incarnation)

    cluster = sd.Cluster({"worker": 1})
    cluster.faults.pause("worker:0", at=0.1, until=5.0)
    cluster.faults.crash("worker:0", at=1.0, restart_after=0.5)
    cluster.launch(main, restart="always").join()
    assert ran == [1]
    sd.sleep(10.0, cluster)
    assert ran == [1]


def test_a_paused_client_learns_of_its_servers_death_when_it_goes_on() -> None:
    cluster, step, _ = training()
    push = span(calm(), "worker:0", "update")
    at = push.start_s + LATENCY_S + 0.1
    cluster.faults.pause("worker:0", at=at, until=at + 3.0)
    cluster.faults.crash("ps:0", at=at + 0.1)
    records = records_at(cluster, "worker:0", at + 1e-9, at + 2.999)
    with pytest.raises(sd.errors.UnavailableError, match="ps:0"):
        step()
    assert records[0] == records[1]
    assert cluster.now == pytest.approx(at + 3.0 + LATENCY_S)


@pytest.mark.parametrize("name", ["chief", "chief:0"])
def test_the_chief_cannot_pause(name: str) -> None:
    cluster = sd.Cluster({"worker": 1})
    with pytest.raises(sd.errors.InvalidArgumentError, match="chief:0 cannot pause"):
        cluster.faults.pause(name, at=1.0)
    assert cluster.faults.planned == []


def test_a_pause_without_an_end_leaves_a_main_standing_and_the_error_names_it() -> None:
    cluster, join = launched(lambda: sd.sleep(1.0))
    cluster.faults.pause("worker:0", at=0.5)
    with pytest.raises(sd.errors.DeadlineExceededError, match="worker:0 is paused, and waits for the end of a sleep"):
        join()
    assert cluster.now == 1.0


# -- lost messages ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cut", "heard"),
    [
        ({"a": "worker:0", "b": "worker:1"}, []),
        ({"a": "worker:0", "b": "worker:1", "one_way": True}, []),
        ({"a": "worker:1", "b": "worker:0", "one_way": True}, ["word"]),
        ({"a": "worker:0", "b": "ps:0"}, ["word"]),
    ],
)
def test_a_word_is_lost_in_the_direction_that_is_cut(cut: dict[str, Any], heard: list[str]) -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    world, found, unheard = cluster.world, list[str](), list[str]()
    cluster.faults.partition(at=0.1, until=0.5, **cut)
    sd.sleep(0.2, cluster)
    world.routes.post(world.tasks["worker:0"], world.tasks["worker:1"], "notice", found.append, "word", unheard.append)
    sd.sleep(1.0, cluster)
    assert (found, unheard) == (heard, [] if heard else ["word"])


@pytest.mark.parametrize(
    ("at", "until", "arrives"),
    [(0.5, 50.0, False), (0.5, 0.7, False), (0.0, 0.1, False), (0.9, 1.1, False), (1.1, 1.5, True), (0.2, 0.3, False)],
)
def test_a_word_on_whose_way_there_is_a_cut_is_lost_however_short_it_is(at: float, until: float, arrives: bool) -> None:
    """A word takes one latency; the cut is given in latencies."""
    cluster = sd.Cluster({"worker": 2}, network=SLOW)
    world, found, unheard = cluster.world, list[str](), list[str]()
    cluster.faults.partition("worker:0", "worker:1", at=1.0 + at * LATENCY_S, until=1.0 + until * LATENCY_S)
    sd.sleep(1.0, cluster)
    world.routes.post(world.tasks["worker:0"], world.tasks["worker:1"], "notice", found.append, "word", unheard.append)
    sd.sleep(1.0, cluster)
    assert (found, unheard) == ((["word"], []) if arrives else ([], ["word"]))


def test_a_word_that_is_sent_after_a_cut_has_healed_arrives() -> None:
    cluster = sd.Cluster({"worker": 2}, network=SLOW)
    world, found = cluster.world, list[str]()
    cluster.faults.partition("worker:0", "worker:1", at=0.5, until=0.5 + LATENCY_S / 10)
    sd.sleep(0.5 + LATENCY_S / 5, cluster)
    world.routes.post(world.tasks["worker:0"], world.tasks["worker:1"], "notice", found.append, "word")
    sd.sleep(1.0, cluster)
    assert found == ["word"]


def test_a_request_on_whose_way_there_is_a_short_cut_ends_by_its_time_out() -> None:
    cluster, step, total = training()
    cluster.faults.partition("worker:0", "ps:0", at=1.4 * LATENCY_S, until=1.6 * LATENCY_S, one_way=True)
    step()
    (again,) = cluster.trace.instants.where(category="retry")
    assert again.time_s == pytest.approx(30.0 + 2 * LATENCY_S)
    np.testing.assert_array_equal(total.numpy(), np.ones(100))


def test_bytes_that_were_lost_leave_their_links_to_others() -> None:
    push = span(calm(), "worker:0", "update")
    cluster, step, total = training()
    cut_s = push.start_s + LATENCY_S + 0.1
    cluster.faults.partition("worker:0", "ps:0", at=cut_s, until=cut_s + 1.0)
    link = next(link for link in cluster.world.fabric.links() if link.name == "worker:0/out")
    flows: list[int] = []
    for moment_s in (cut_s - 0.01, cut_s + 0.01):
        cluster.world.clock.after_daemon(moment_s, lambda: flows.append(len(link.flows) + (link.quiet is not None)))
    step()
    assert flows == [1, 0]
    np.testing.assert_array_equal(total.numpy(), np.ones(100))


def test_a_confirmation_that_is_on_its_way_when_a_cut_begins_is_lost_and_the_closure_is_run_again() -> None:
    confirmed_s = span(calm(), "worker:0", "update").end_s
    cluster, step, total = training()
    cluster.faults.partition("ps:0", "worker:0", at=confirmed_s - LATENCY_S / 2, until=confirmed_s - LATENCY_S / 4, one_way=True)
    step()
    assert len(cluster.trace.instants.where(category="retry")) == 1
    np.testing.assert_array_equal(total.numpy(), np.full(100, 2.0))  # it had been applied: at least once


def test_a_reset_that_is_on_its_way_when_a_cut_begins_is_lost_and_silence_tells_instead() -> None:
    cluster, step, _ = training()
    cluster.faults.crash("worker:0", at=0.1, restart_after=20.0)
    cluster.faults.partition("worker:0", "chief", at=0.1 + LATENCY_S / 2, until=0.1 + LATENCY_S / 4 * 3, one_way=True)
    step()
    (down,) = cluster.trace.instants.where(category="detect")
    assert (down.time_s, down.facts["reason"]) == (6.0, "silent for 6.0 s")


@pytest.mark.parametrize("until_s", [0.05 + 0.08, 0.05 + 0.18])
def test_a_device_that_ends_late_does_one_thing_after_the_other(until_s: float) -> None:
    """Two closures compute on the processor of one worker, each for 0.1 s: a kernel that was begun goes on."""
    cluster = sd.Cluster({"worker": 1, "ps": 1}, numerics="off")
    cluster.faults.pause("worker:0", at=0.05, until=until_s)
    coordinators = [sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster)) for _ in range(2)]
    step = sd.function(lambda number: number + 1.0, seconds=0.1)
    for coordinator in coordinators:
        coordinator.schedule(step, args=(np.float32(1.0),))
    for coordinator in coordinators:
        coordinator.join()
    first, second = cluster.trace.spans.where(category="compute")
    assert first.end_s == second.start_s == until_s
    assert (first.start_s, second.end_s) == pytest.approx((0.0, max(until_s, 0.2)), abs=1e-4)
