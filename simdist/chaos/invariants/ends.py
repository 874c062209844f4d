"""Invariants of ends: how a scenario may end, and what its closures and mains give."""

from __future__ import annotations

from collections.abc import Iterator

from simdist.chaos.evidence import Evidence, Invariant
from simdist.chaos.kinds import KINDS
from simdist.chaos.runs import ScenarioRun
from simdist.errors import DeadlineExceededError

__all__ = ["ENDS"]


def _excused(run: ScenarioRun, error: BaseException) -> bool:
    classes = [kind for kind, _ in run.workload.excuses(run)]
    classes += [kind for d in run.fired for kind in KINDS[d.kind].excuses(d, run.scenario)]
    return any(isinstance(error, kind) for kind in classes)


def _never_hangs(evidence: Evidence) -> Iterator[str]:
    for error in (evidence.run.error, evidence.run.quiet_error):
        if isinstance(error, DeadlineExceededError) and not _excused(evidence.run, error):
            yield f"a task that was to restart waits for ever: {error}"


def _right_end(evidence: Evidence) -> Iterator[str]:
    run, calm = evidence.run, evidence.calm
    if calm.error is not None and not _excused(calm, calm.error):
        yield f"with nothing going wrong it ended with {type(calm.error).__name__}: {calm.error}"
    error = run.error
    if error is not None and not isinstance(error, DeadlineExceededError) and not _excused(run, error):
        yield f"it ended with an error that nothing explains: {type(error).__name__}: {error}"
    died = run.processes.crashed(["chief:0"])
    if run.quiet_error is not None and not died and not isinstance(run.quiet_error, DeadlineExceededError):
        yield f"after its end, {type(run.quiet_error).__name__}: {run.quiet_error}"


def _no_closure_lost(evidence: Evidence) -> Iterator[str]:
    run = evidence.run
    closures = run.stage.closures
    if not closures or not evidence.ended_well:
        return
    pending = [number for number, (_, value) in enumerate(closures) if value.state == "pending"]
    if pending:
        yield f"closures {pending} have not ended though all were joined"
    failed = sum(letter == "r" and value.state == "failed" for letter, value in closures)
    raised = sum(note.what == "raised" for note in run.stage.notes)
    if run.scenario.options.get("callers") == 1 and bool(failed) != bool(raised):
        yield f"{failed} closures failed by themselves, but an error was raised {raised} times"


def _updates_counted(evidence: Evidence) -> Iterator[str]:
    """Each completed step is applied, once for each time that it ran."""
    run = evidence.run
    steps = [value for letter, value in run.stage.closures if letter == "s"]
    if not steps or run.processes.crashed([task for task in run.cluster.tasks if task.startswith("ps")]):
        return
    completed = sum(value.state == "ready" for value in steps)
    failed = len(steps) - completed
    retries = len(run.cluster.trace.instants.where(category="retry"))
    applied: dict[str, int] = {}
    for span in run.cluster.trace.spans.where(category="apply"):
        applied[f"{span.lane} {span.name}"] = applied.get(f"{span.lane} {span.name}", 0) + 1
    for what, count in applied.items():
        if not completed <= count <= completed + retries + failed:
            yield f"{what}: {count} updates for {completed} completed steps, {failed} others and {retries} retries"
    counted = run.stage.values.get("count")
    if counted is not None and not completed <= float(counted) <= completed + retries + failed:
        yield f"the counter holds {float(counted)} for {completed} completed steps, {failed} others and {retries} retries"


def _restart_runs(evidence: Evidence) -> Iterator[str]:
    """Of each launched main: it ran, one at a time, on a task that was up, and its result is what it returned."""
    run = evidence.run
    if not run.workload.has_mains:
        return
    for task in run.workload.roles(run.scenario)["worker"]:
        running = False
        notes = [note for note in run.stage.notes if note.task == task]
        for before, note in zip([None, *notes], notes, strict=False):
            if note.what == "starts":
                killed = before is not None and run.processes.died_between(task, before.time_s - 1e-12, note.time_s + 1e-12)
                if running and not killed:
                    yield f"two mains of {task} at {note.time_s} s"
                if any(down.from_s < note.time_s < down.until_s for down in run.processes.of(task)):
                    yield f"a main of {task} started at {note.time_s} s, when the task was down"
                running = True
            elif note.what in ("ends", "fails"):
                running = False
        ends = [note.fact for note in notes if note.what == "ends"]
        if evidence.ended_well:
            if len(ends) != 1:
                yield f"the main of {task} came to its end {len(ends)} times"
            elif (end := run.stage.results.get(task)) is None or end[0] != ends[0]:
                yield f"the main of {task} returned as its run {ends[0]}, but the result is {end!r}"
    if evidence.ended_well and not run.stage.results:
        yield "no main has a result"


ENDS = [
    Invariant("never-hangs", "A wait for a task that is up, or will be, ends.", _never_hangs),
    Invariant("right-end", "A scenario ends well, or with an error that its faults explain.", _right_end),
    Invariant("no-closure-lost", "Each closure that was scheduled ends: done, with its own error, or cancelled.", _no_closure_lost),
    Invariant("updates-counted", "The updates are at least the completed steps and at most all their retries.", _updates_counted),
    Invariant("restart-runs", "A launched main runs, one at a time, on a task that is up, and its result is kept once.", _restart_runs),
]
