"""Invariants of tasks: what a task does while it is up, and that it does nothing while it is down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from simdist.chaos.evidence import Evidence, Invariant
from simdist.chaos.kinds import KINDS
from simdist.chaos.runs import ScenarioRun
from simdist.trace.records import task_of

__all__ = ["TASKS"]


def _dead_is_silent(evidence: Evidence) -> Iterator[str]:
    run = evidence.run
    spans = run.cluster.trace.spans
    for down in run.processes.downs:
        for span in spans:
            if task_of(span.lane) == down.task and span.category != "down" and span.end_s > down.from_s and span.start_s < down.until_s:
                yield f"{down.task} was down from {down.from_s} to {down.until_s} s, but has {span}"
    yield from _dead_holds_nothing(evidence)
    yield from _dead_applies_nothing(evidence)


def _dead_holds_nothing(evidence: Evidence) -> Iterator[str]:
    for time_s, device, size_bytes in evidence.run.probe.held_while_down[:3]:
        yield f"{device} held {size_bytes} B at {time_s} s, when its task was down"


def _dead_applies_nothing(evidence: Evidence) -> Iterator[str]:
    """An update counts only in the incarnation of the worker that computed it: the last computation before it is of that one."""
    run = evidence.run
    for span in run.cluster.trace.spans.where(category="apply"):
        worker = span.facts.get("worker")
        if worker is None or task_of(span.lane) == worker:
            continue
        rounding_s = 1e-12 * max(1.0, span.end_s)
        if run.processes.died_between(str(worker), span.start_s, span.end_s - rounding_s):
            yield f"an update of {worker} from {span.start_s} to {span.end_s} s was applied although it died in between"


FAULTS = {"heal", *(kind.name for kind in KINDS.values())}
SAID_BY_OTHERS = {*FAULTS, "restart", "detect", "retry", "error", "cancel", "resize", "place"}


def _joins_with_copies(evidence: Evidence) -> Iterator[str]:
    """A replica that was given up computes again only when it has received the variables of a survivor."""
    run = evidence.run
    if not run.workload.name.startswith("elastic"):
        return
    given_up = run.cluster.trace.instants.where(category="detect")
    copies = [span for span in run.cluster.trace.spans.where(category="read", name="variables of a survivor") if span.facts["bytes"] > 0]
    for span in run.cluster.trace.spans.where(category="compute"):
        task = task_of(span.lane)
        times = [mark.time_s for mark in given_up if mark.lane == task and mark.time_s < span.start_s]
        if (
            times
            and _was_left_behind(run, task, times[-1], span.start_s)
            and not any(task_of(copy.lane) == task and times[-1] <= copy.end_s <= span.start_s for copy in copies)
        ):
            yield f"{task} was given up at {times[-1]} s, but computes {span} without variables of a survivor"


def _was_left_behind(run: ScenarioRun, task: str, given_up_s: float, until_s: float) -> bool:
    """Whether it died, or the others went on without it while it was not heard."""
    leaves = [mark.time_s for mark in run.cluster.trace.instants.where(category="resize") if mark.name.startswith("leave")]
    unheard = [at_s for at_s in leaves if given_up_s <= at_s <= until_s and not run.silences.is_heard(task, "chief:0", at_s)]
    return bool(unheard) or not run.processes.is_up(task, given_up_s)


ENDED_BY_OTHERS = {"compute", "apply", "wait", "transfer"}  # by the device, by the last who came, and by links


def _paused_is_silent(evidence: Evidence) -> Iterator[str]:
    """A paused task begins nothing and ends nothing; what its device or its links had begun may come to its end."""
    run = evidence.run
    for still in run.silences.stills:
        words = f"{still.task} stood still from {still.from_s} to {still.until_s} s, but has"
        for span in run.cluster.trace.spans:
            if task_of(span.lane) != still.task or span.category == "down":
                continue
            # A device has a queue; a collective is there for all of them from the moment in which the last one has come.
            sent = span.name == "variables of a survivor" or (span.category == "checkpoint" and span.name.startswith("receive "))
            others = span.category in ("collective", "apply", "transfer") or sent  # begun by others
            begins = still.covers(span.start_s) and not others
            ends = still.covers(span.end_s) and span.category not in ENDED_BY_OTHERS
            if begins or ends:
                yield f"{words} {span}"
        for mark in run.cluster.trace.instants:
            own = task_of(mark.lane) == still.task and mark.category not in SAID_BY_OTHERS
            if own and still.covers(mark.time_s):
                yield f"{words} {mark}"
        for note in run.stage.notes:
            if note.task == still.task and still.covers(note.time_s):
                yield f"{words} {note}"


def _one_thing_at_a_time(evidence: Evidence) -> Iterator[str]:
    lanes: dict[str, list[tuple[float, float, str]]] = {}
    for span in evidence.run.cluster.trace.spans:
        if span.category in ("compute", "apply") and span.end_s > span.start_s:
            lanes.setdefault(span.lane, []).append((span.start_s, span.end_s, span.name))
    for lane, work in lanes.items():
        work.sort()
        for (_, end_s, name), (start_s, _, other) in pairwise(work):
            if start_s < end_s - 1e-12 * max(1.0, end_s):
                yield f"{lane} began {other} at {start_s} s, while {name} ran until {end_s} s"


def _detect_once(evidence: Evidence) -> Iterator[str]:
    """A moment shows a task as down once for each of its incarnations that has died and was not shown before."""
    instants = evidence.run.cluster.trace.instants
    told = Counter((mark.lane, mark.time_s) for mark in instants.where(category="detect"))
    deaths = [mark for mark in instants if mark.category in ("crash", "lose_host")]
    for (task, time_s), count in told.items():
        died = {mark.facts["incarnation"] for mark in deaths if mark.lane == task and mark.time_s <= time_s}
        before = sum(number for (other, at_s), number in told.items() if other == task and at_s < time_s)
        if count > max(1, len(died) - before):
            yield f"{task} was found to be down {count} times at {time_s} s"


def _belief_exact(evidence: Evidence) -> Iterator[str]:
    run = evidence.run
    if run.processes.crashed(["chief:0"]):
        return
    runtime = run.cluster.world
    for name, belief in runtime.detection.membership.beliefs.items():
        task = runtime.tasks[name]
        if run.silences.is_heard_by_chance(name, "chief:0", run.quiet_s):
            continue
        is_up = task.alive and run.silences.is_heard(name, "chief:0", run.quiet_s)
        if belief.up != is_up or (is_up and belief.incarnation != task.incarnation):
            yield f"the chief believes {belief}, but {task}"


TASKS = [
    Invariant("dead-task-is-silent", "A task that is down has no span, holds no bytes and changes nothing.", _dead_is_silent),
    Invariant("paused-task-is-silent", "A task that stands still begins and ends nothing.", _paused_is_silent),
    Invariant("joins-with-copies", "A replica that was given up joins with variables of a survivor.", _joins_with_copies),
    Invariant("one-thing-at-a-time", "No processor computes two things at once.", _one_thing_at_a_time),
    Invariant("detect-once", "A death is found once.", _detect_once),
    Invariant("belief-exact", "After a quiet time the chief believes what is true.", _belief_exact),
]
