"""Each invariant fails on a run that breaks it: a sabotaged engine where that is easy, a doctored run elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chaos.planted import errors_cancel_nothing
from chaos.planted_servers import numbers_of_versions_go_back
from simdist.chaos import Chips, Disturbance, Scenario, Wires, examine, run
from simdist.chaos.evidence import Evidence, Print
from simdist.chaos.examining import broken, evidence_of
from simdist.chaos.incarnations import Down
from simdist.chaos.invariants import INVARIANTS
from simdist.coordinator.queue import ClosureQueue
from simdist.errors import DeadlineExceededError, UnavailableError
from simdist.runtime.membership import MemberState
from simdist.runtime.simulated import rounds
from simdist.runtime.simulated.collective_plans import CollectivePlans
from simdist.runtime.simulated.preemptions import Preemptions
from simdist.runtime.simulated.processor import Processor
from simdist.runtime.simulated.round_order import in_order
from simdist.runtime.simulated.rounds import RoundServer
from simdist.runtime.simulated.server_loop import ServerLoop
from simdist.runtime.simulated.world import World

Doctor = Callable[[Evidence], Any]

MAINS = Scenario("mains", {"naps": 2, "nap_s": 0.5, "restart": "never"}, workers=2)
CLOSURES = Scenario("coordinator", {"script": "sspssj", "callers": 1}, workers=3)
STEPS = Scenario("multi-worker", {"steps": 2, "batch": 6, "momentum": False}, workers=2)
NUMBERS = replace(STEPS, numerics="deferred")
CRASH = Disturbance("crash", "worker:1", at_s=2e-4, figures={"restart_after": 1e-3})
CRASHED = replace(CLOSURES, disturbances=(CRASH,))
PAUSED = replace(CLOSURES, disturbances=(Disturbance("pause", "worker:1", at_s=1e-6, figures={"until": 7.0}),))
ROUNDS = Scenario(
    "servers",
    {
        "mode": "sync",
        "staleness": None,
        "backup_workers": 0,
        "recovery": "raise",
        "exactly_once": False,
        "shards": 1,
        "momentum": False,
        "rounds": [4, 2],
    },
    workers=2,
    numerics="deferred",
)
SNAPSHOTS = replace(
    ROUNDS,
    options={**ROUNDS.options, "recovery": "checkpoint"},
    numerics="off",
    disturbances=(Disturbance("preempt", "worker:1", at_s=1e-4, figures={"notice": 2e-4, "restart_after": 1e-3}),),
)
SLOWED = replace(STEPS, disturbances=(Disturbance("slow", "worker:1", at_s=1e-6, figures={"factor": 3.0, "until": None}),))


def findings(scenario: Scenario, doctor: Doctor = lambda evidence: None) -> set[str]:
    """The names of the invariants that a scenario breaks, when its evidence has been doctored."""
    with evidence_of(scenario, again=False) as evidence:
        doctor(evidence)
        return {finding.invariant for finding in broken(evidence)}


def ends_with(error: BaseException) -> Doctor:
    return lambda evidence: setattr(evidence.run, "error", error)


def change_weights(evidence: Evidence) -> None:
    evidence.run.stage.values["weights"] = evidence.run.stage.values["weights"] + np.float32(0.01)


def no_numbers(evidence: Evidence) -> None:
    evidence.run.stage.values["weights"] = np.full_like(evidence.run.stage.values["weights"], np.nan)


def change_a_copy(evidence: Evidence) -> None:
    evidence.run.stage.copies["weights"][1][0] += 1.0


def work_while_down(evidence: Evidence) -> None:
    down = evidence.run.processes.downs[0]
    evidence.run.cluster.trace.span(down.task, "compute", "ghost", down.from_s, down.until_s)


def work_while_paused(evidence: Evidence) -> None:
    still = evidence.run.silences.stills[0]
    evidence.run.cluster.trace.span(still.task, "compute", "ghost", still.from_s + 0.1, still.until_s)


def forget_the_copies(evidence: Evidence) -> None:
    evidence.run.processes.downs.append(Down("worker:1", 1e-9, 2e-9, 1e-9))
    evidence.run.cluster.trace.instant("worker:1", "detect", "worker:1 is down", 1e-9)


def detect_again(evidence: Evidence) -> None:
    found = evidence.run.cluster.trace.instants.where(category="detect")[0]
    evidence.run.cluster.trace.instant(found.lane, "detect", found.name, found.time_s)


def start_twice(evidence: Evidence) -> None:
    notes = evidence.run.stage.notes
    notes.insert(0, notes[0])


def slow_without_effect(evidence: Evidence) -> None:
    evidence.run.fired = list(evidence.scenario.disturbances)
    evidence.run.cluster = evidence.calm.cluster


def span_backwards(evidence: Evidence) -> None:
    evidence.run.cluster.trace.span("worker:0", "compute", "step", 2.0, 1.0)


def carry_more(evidence: Evidence) -> None:
    next(link for link in evidence.run.cluster.world.fabric.links() if link.name == "worker:0/out").bytes_carried += 100.0


def believe_wrongly(evidence: Evidence) -> None:
    evidence.run.cluster.world.detection.membership.beliefs["worker:0"].state = MemberState.DOWN


def tear_a_file(evidence: Evidence) -> None:
    evidence.run.cluster.world.disks.used["ps:0"].disk.files.put("snapshot-0", 100, 99)


DOCTORED: dict[str, tuple[Scenario, Doctor]] = {
    "never-hangs": (MAINS, ends_with(DeadlineExceededError("nobody comes"))),
    "right-end": (MAINS, ends_with(IndexError("tuple index out of range"))),
    "restart-runs": (MAINS, start_twice),
    "same-digest": (STEPS, lambda evidence: setattr(evidence, "again", Print("0", "0"))),
    "same-bits-by-plan": (NUMBERS, lambda evidence: evidence.plans.update(loop=Print(evidence.run.digest, "0"))),
    "sync-equals-undisturbed": (NUMBERS, change_weights),
    "equals-plain": (NUMBERS, change_weights),
    "equals-replay": (ROUNDS, change_weights),
    "finite": (NUMBERS, no_numbers),
    "restored-as-saved": (NUMBERS, lambda evidence: evidence.run.stage.restores.append((np.zeros(1), np.ones(1)))),
    "replicas-agree": (NUMBERS, change_a_copy),
    "dead-task-is-silent": (CRASHED, work_while_down),
    "paused-task-is-silent": (PAUSED, work_while_paused),
    "joins-with-copies": (replace(STEPS, workload="elastic"), forget_the_copies),
    "detect-once": (CRASHED, detect_again),
    "belief-exact": (CLOSURES, believe_wrongly),
    "factors-multiply": (SLOWED, slow_without_effect),
    "time-forward": (STEPS, span_backwards),
    "bytes-conserved": (STEPS, carry_more),
    "queues-end-empty": (STEPS, lambda evidence: evidence.run.cluster.world.clock.after(1.0, print)),
    "files-whole": (SNAPSHOTS, tear_a_file),
    "memory-account": (STEPS, lambda evidence: evidence.run.held.update({"worker:0": 10**6})),
}


@pytest.mark.parametrize("name", list(DOCTORED))
def test_a_doctored_run_breaks_the_invariant(name: str) -> None:
    scenario, doctor = DOCTORED[name]
    assert name in findings(scenario, doctor)


def test_the_undisturbed_run_is_compared_with_plain_numpy_where_the_other_ends_with_an_error() -> None:
    def doctor(evidence: Evidence) -> None:
        evidence.run.error = IndexError("tuple index out of range")
        evidence.calm.stage.values["weights"] = evidence.calm.stage.values["weights"] + np.float32(0.01)

    assert findings(NUMBERS, doctor) == {"right-end", "equals-plain"}


def lose_closures(patch: pytest.MonkeyPatch) -> Scenario:
    """What a worker ran when it died is forgotten."""

    def worker_down(queue: ClosureQueue, worker: str) -> list[Any]:
        queue.idle.pop(worker, None)
        queue.running.pop(worker, None)
        return []

    patch.setattr(ClosureQueue, "worker_down", worker_down)
    return CRASHED


def apply_twice(patch: pytest.MonkeyPatch) -> Scenario:
    """A push is applied, and applied again."""
    commit = ServerLoop.commit

    def twice(server: ServerLoop, *arguments: Any) -> None:
        commit(server, *arguments)
        commit(server, *arguments)

    patch.setattr(ServerLoop, "commit", twice)
    return CLOSURES


def compute_at_once(patch: pytest.MonkeyPatch) -> Scenario:
    """A server does not wait until its processor is free."""
    occupy = Processor.occupy_for

    def at_once(processor: Processor, now: float, seconds: float) -> tuple[float, float]:
        processor.free_s = now
        return occupy(processor, now, seconds)

    patch.setattr(Processor, "occupy_for", at_once)
    return CLOSURES


def crash_nobody(patch: pytest.MonkeyPatch) -> Scenario:
    """A crash does nothing."""
    patch.setattr(World, "crash", lambda *arguments: None)
    return CRASHED


def preempt_nobody(patch: pytest.MonkeyPatch) -> Scenario:
    """A task has notice, and nothing follows."""
    patch.setattr(Preemptions, "_kill", lambda preemptions, notice: None)
    return SNAPSHOTS


def leave_one_out(patch: pytest.MonkeyPatch) -> Scenario:
    """A round with several updates is applied without the last one."""
    patch.setattr(rounds, "in_order", lambda attempts: [updates[:-1] for updates in in_order(attempts)])
    return ROUNDS


def read_at_once(patch: pytest.MonkeyPatch) -> Scenario:
    """A read does not wait for the round that it needs."""
    patch.setattr(RoundServer, "wait", lambda rounds, needs, asked, leg: False)
    return ROUNDS


def keep_the_version(patch: pytest.MonkeyPatch) -> Scenario:
    """An update has the number of the one before."""
    commit = ServerLoop.commit

    def still(server: ServerLoop, update: Any, *arguments: Any) -> None:
        server.states.versions[update.group] -= 1
        commit(server, update, *arguments)

    patch.setattr(ServerLoop, "commit", still)
    return ROUNDS


def cancel_nothing(patch: pytest.MonkeyPatch) -> Scenario:
    """What waits when a closure fails runs later."""
    errors_cancel_nothing(patch)
    return replace(CLOSURES, options={"script": "rssssss", "callers": 1}, workers=2)


def take_twice_as_long(patch: pytest.MonkeyPatch) -> Scenario:
    """A collective that finds all links idle lasts twice as long as they need."""
    uncontended_seconds = CollectivePlans.uncontended_seconds

    def slower(plans: CollectivePlans, routed: Any, carried: Any) -> list[float]:
        return [2.0 * each for each in uncontended_seconds(plans, routed, carried)]

    patch.setattr(CollectivePlans, "uncontended_seconds", slower)
    return STEPS


SABOTAGED: dict[str, Callable[[pytest.MonkeyPatch], Scenario]] = {
    "no-closure-lost": lose_closures,
    "cancelled-with-the-error": cancel_nothing,
    "closed-forms": take_twice_as_long,
    "updates-counted": apply_twice,
    "one-thing-at-a-time": compute_at_once,
    "crash-takes-effect": crash_nobody,
    "killed-after-notice": preempt_nobody,
    "counts-as-asked": leave_one_out,
    "bounded-staleness": read_at_once,
    "versions-grow": keep_the_version,
}


@pytest.mark.parametrize("name", list(SABOTAGED))
def test_a_sabotaged_engine_breaks_the_invariant(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert name in findings(SABOTAGED[name](monkeypatch))


def test_a_collective_may_share_its_links_with_a_checkpoint_that_is_saved_meanwhile() -> None:
    options = {"acts": "tst", "async": True, "batch": 8, "kept": 3, "momentum": True, "under": "multi-worker"}
    slow = Wires(latency_s=1.11e-6, bandwidth=433_000.0)
    assert findings(Scenario("checkpoints", options, workers=3, wires=slow, numerics="deferred")) == set()


def test_versions_grow_also_where_a_server_goes_back_to_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    crash = Disturbance("crash", "ps:0", at_s=5e-3, figures={"restart_after": 1e-3})
    gone_back = replace(SNAPSHOTS, options={**SNAPSHOTS.options, "rounds": [40]}, disturbances=(crash,))
    assert findings(gone_back) == set()
    numbers_of_versions_go_back(monkeypatch)
    assert findings(gone_back) == {"versions-grow"}


def test_every_invariant_is_seen_to_fail() -> None:
    assert set(DOCTORED) | set(SABOTAGED) == set(INVARIANTS)


def test_nothing_is_wrong_with_runs_that_nobody_doctored() -> None:
    for scenario in (MAINS, CLOSURES, STEPS, NUMBERS, CRASHED, PAUSED, SNAPSHOTS):
        assert findings(scenario) == set(), scenario


def test_pause_that_begins_as_another_ends_lets_the_task_go_on_in_between() -> None:
    disturbances = (
        Disturbance(kind="pause", task="worker:0", after_steps=1, figures={"until": None}),
        Disturbance(kind="pause", task="worker:0", at_s=6.7e-05, figures={"until": 0.0003}),
    )
    wires = Wires(bandwidth=1620000000.0, latency_s=1.75e-06)
    scenario = Scenario(workload="coordinator", options={"callers": 1, "script": "s"}, wires=wires, disturbances=disturbances)
    assert examine(scenario) == []


def test_a_task_that_stands_still_may_be_sent_its_part_of_a_checkpoint() -> None:
    options = {"acts": "ssrttt", "async": False, "batch": 8, "kept": 1, "momentum": False, "under": "multi-worker"}
    pause = Disturbance(kind="pause", task="worker:0", at_s=0.0049501, figures={"until": 9.7})
    assert findings(Scenario("checkpoints", options, numerics="loop", disturbances=(pause,))) == set()


def test_two_incarnations_may_be_found_to_be_down_at_once() -> None:
    """A lost machine is not announced, so the crash of its next process tells of both."""
    disturbances = (
        Disturbance(kind="crash", task="worker:1", at_s=0.00044, figures={"restart_after": 0.00044}),
        Disturbance(kind="lose_host", task="worker:1", at_s=0.0003, figures={"restart_after": 0.00011}),
    )
    wires = Wires(bandwidth=4600000.0, latency_s=7.36e-05, tasks_per_rack=2)
    options = {"batch": 6, "momentum": False, "steps": 3}
    assert examine(Scenario(workload="elastic", options=options, workers=2, wires=wires, disturbances=disturbances)) == []


# The second caller takes the error of the closures, so that the loop goes on to its next one.
LOST_HOST = Scenario(
    "coordinator",
    {"callers": 2, "script": "ssssssssjs"},
    chips=Chips(9.16e-4, "exponential"),
    numerics="loop",
    disturbances=(Disturbance("lose_host", "ps:0", at_s=0.02, figures={"restart_after": 2.5e-06}),),
    reads=(1, 2, 3),
)
LOST_IN_A_FIT = Scenario(
    "coordinator-fit",
    {"epochs": 3, "penalty": False},
    numerics="loop",
    disturbances=(Disturbance("crash", "ps:0", at_s=0.001, figures={"restart_after": None}),),
    reads=(1, 2, 3),
)


@pytest.mark.parametrize("scenario", [LOST_HOST, LOST_IN_A_FIT])
def test_a_look_at_weights_that_were_lost_with_their_server_ends_no_run(scenario: Scenario) -> None:
    assert examine(scenario) == []


def test_a_worker_that_has_died_begins_its_data_anew_and_so_does_the_replay() -> None:
    options = {**ROUNDS.options, "mode": "async", "recovery": "replica", "rounds": [1, 5, 5]}
    idle = Disturbance("crash", "worker:3", at_s=0.0016, figures={"restart_after": 0.00049})
    assert examine(replace(ROUNDS, options=options, workers=4, servers=4, disturbances=(idle,))) == []


def test_weights_may_be_read_while_their_server_gets_them_back() -> None:
    options = {**ROUNDS.options, "mode": "bounded", "staleness": 1, "recovery": "replica", "shards": 3, "rounds": [1]}
    wires, chips = Wires(3.84e6, 1.17e-3), Chips(0.0171)
    crash = Disturbance("crash", "ps:0", at_s=0.1031820649, figures={"restart_after": 0.0})
    scenario = Scenario("servers", options, servers=2, wires=wires, chips=chips, numerics="deferred", disturbances=(crash,))
    assert isinstance(run(scenario).error, UnavailableError)
    assert examine(scenario) == []


def test_a_replica_that_died_is_in_no_early_collective_that_ends_later() -> None:
    death = Disturbance("crash", "worker:2", 0.00055, figures={"restart_after": 3.1e-05})
    options = {"batch": 6, "momentum": False, "route": "packs", "steps": 4}
    chips = Chips(jitter="uniform", spread=0.5)
    assert examine(Scenario("backup", workers=3, chips=chips, seed=387843358, options=options, disturbances=(death,))) == []
