"""What a fault has cost: the story of one failure, against the run in which it did not happen.

The other run is exact: the same program, cluster, seed and commands, without this one. Both come on by units: completed closures, or
where there are none steps of the training (progress.py). How far the run *lags* is when it had come so far, less when the other one had;
while the next unit is overdue it lags by at least the time that has passed since. The lag is 0 before the fault, and at the end it is the
difference of both runs. So what it grows by in each phase of the recovery sums to that difference, exactly. A phase in which the cluster
gains time costs less than nothing.

    phase       ends with
    detection   the first task believes that something is down
    decision    a closure is run again or cancelled, or a group of replicas changes its size
    restoration the task is started again, or the fault heals
    reading     a checkpoint has been read back
    catching up the lag has come near what it is at the end, and stays there
    afterwards  the end of the run

A phase whose event does not come is left out, and the events may come in another order: each phase is called after the event that ends it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.faults.base import Fault
from simdist.faults.process import Preempt
from simdist.session.commands import Command
from simdist.session.session import Session
from simdist.trace import Trace
from simdist.trace.records import Instant, task_of
from simdist.trace.summary import summary

__all__ = ["Phase", "Recovery", "recovery"]

DECIDED = ("retry", "cancel", "resize")
DEATHS = ("crash", "lose_host")
IDLE = ("down", "wait")


@dataclass(frozen=True)
class Phase:
    """One phase of a recovery.

    Args:
        name: as in the table above.
        begin_s, end_s: in virtual seconds.
        lag_before_s, lag_after_s: by how much the run lagged behind the other one at both ends.

    Example:
        >>> Phase("detection", 0.5, 0.75, 0.0, 0.25).cost_s
        0.25
    """

    name: str
    begin_s: float
    end_s: float
    lag_before_s: float
    lag_after_s: float

    @property
    def cost_s(self) -> float:
        """By how much the lag grew."""
        return self.lag_after_s - self.lag_before_s


@dataclass(frozen=True)
class Recovery:
    """A failure's story, from the fault to the end of the run.

    Args:
        fault: as text.
        state: how the run ended: "finished" or "failed".
        state_without: how it ends without the fault.
        phases: in order; the first one begins with the fault. Empty for a fault that never began.
        end_s, end_without_s: when both runs end.
        units, units_without: how far both came, in closures or in steps of the training; one that is taken again is no progress.
        steps, steps_without: that all workers have ended; of a step that replicas take together, each counts.
        repeated_steps: how many steps were taken again: of closures, what workers have ended more; of replicas that step together, what
            one of them, which never died, has begun more, or where all have died what one of them has ended more.
        lost_s: of work under way that died with its task.
        waited_s: seconds that the devices of all other workers were idle for longer, added up.
        loss, loss_without: of what both programs returned; None where it was not asked for, or there is no result.
    """

    fault: str
    state: str
    state_without: str
    phases: tuple[Phase, ...]
    end_s: float
    end_without_s: float
    units: int
    units_without: int
    steps: int
    steps_without: int
    repeated_steps: int
    lost_s: float
    waited_s: float
    loss: float | None = None
    loss_without: float | None = None

    @property
    def cost_s(self) -> float:
        """By how much the run ended later."""
        return self.end_s - self.end_without_s

    def rows(self) -> Iterator[tuple[str, str]]:
        """The story as pairs of a name and a text."""
        yield "fault", self.fault
        if not self.phases:
            yield "never", f"the run {self.state} before it began"
            return
        for phase in self.phases:
            yield phase.name, f"{phase.begin_s:.6f} to {phase.end_s:.6f} s, cost {phase.cost_s:+.6f} s"
        otherwise = "" if self.state == self.state_without else f" {self.state_without}"
        ends = f"{self.state} at {self.end_s:.6f} s, without the fault{otherwise} at {self.end_without_s:.6f} s"
        yield "cost", f"{self.cost_s:+.6f} s: {ends}"
        if self.units < self.units_without:
            yield "came to", f"{self.units} of {self.units_without} closures or steps"
        yield "repeated", f"{self.repeated_steps} step{'s' * (self.repeated_steps != 1)}"
        yield "lost", f"{self.lost_s:.6f} s of work under way"
        yield "others waited", f"{self.waited_s:+.6f} s"
        if self.loss is not None and self.loss_without is not None:
            yield "loss", f"{self.loss:.6g}, without the fault {self.loss_without:.6g}"

    def __str__(self) -> str:
        return "\n".join(f"{name:<14} {text}" for name, text in self.rows())


def recovery(session: Session, command: Command, loss: Callable[[Any], float] | None = None) -> Recovery:
    """What a fault of a session has cost, against the exact run without it. The session itself is not changed.

    Args:
        session: whose; where it is not over, a fork of it runs to its end.
        command: one of ``session.commands``.
        loss: of what the program returns, if it shall be compared, too; default not.

    Raises:
        InvalidArgumentError: the session has no such command.
        FailedPreconditionError: called by a running program.
        TypeError: it is no session.

    Example:
        >>> import simdist as sd
        >>> def program(cluster):
        ...     chief = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        ...     for _ in range(6):
        ...         chief.schedule(lambda: sd.sleep(1.0))
        ...     chief.join()
        >>> session = sd.Session(program, sd.Cluster({"worker": 2, "ps": 1}))
        >>> session.advance(until=1.5)
        >>> crash = session.inject({"kind": "crash", "task": "worker:1", "restart_after": 0.25})
        >>> story = recovery(session, crash)
        >>> [phase.name for phase in story.phases], round(story.cost_s, 2)
        (['detection', 'decision', 'restoration', 'afterwards'], 0.75)
    """
    if not isinstance(cast("object", session), Session):
        raise TypeError(f"session is {session!r:.200}; expected an sd.Session, whose run can be repeated without the fault")
    commands = session.commands
    if command not in commands:
        raise InvalidArgumentError(f"{command!r} is no command of this session. It has {commands!r}.")
    broken = session if session.state in ("finished", "failed") else _ended(session.fork(0.0))
    whole = _ended(session.fork(0.0, without=[command]))
    story = _story(broken, whole, commands.index(command))
    if loss is None:
        return story
    losses = [float(loss(one.result)) if one.state == "finished" else None for one in (broken, whole)]
    return replace(story, loss=losses[0], loss_without=losses[1])


def _ended(session: Session) -> Session:
    with suppress(Exception):  # the program's error, which the session keeps
        session.advance()
    if session.state == "paused":
        raise FailedPreconditionError(f"The run stands still at {session.now:.6f} s, before its end; a command of it makes no sense there.")
    return session


def _story(broken: Session, whole: Session, number: int) -> Recovery:
    faults = broken.faults
    fault = faults[number] if number < len(faults) else None
    phases: tuple[Phase, ...] = ()
    waited_s = lost_s = 0.0
    units, units_without = _units(broken, whole)
    if fault is not None and fault.fired_s is not None:
        tasks = tasks_of(fault)
        events = sorted(_events(broken.trace, fault, fault.fired_s, tasks), key=lambda event: event[1])
        phases = tuple(_phases(broken.now, whole.now, fault.fired_s, events, units, units_without))
        waited_s = _idle_s(broken, tasks) - _idle_s(whole, tasks)
        killed_s = _killed_s(fault)
        if killed_s is not None and killed_s <= broken.now:
            later = broken.commands[number + 1 :]  # these may kill the same tasks, too
            alone = whole if not later else _ended(broken.fork(0.0, without=broken.commands[number:]))
            lost_s = sum(_lost_s(alone.trace, task, killed_s, _retried(broken.trace, task, killed_s)) for task in tasks)
    return Recovery(
        fault=fault.describe() if fault is not None else str(dict(broken.commands[number].fault)),
        state=broken.state,
        state_without=whole.state,
        phases=phases,
        end_s=broken.now,
        end_without_s=whole.now,
        units=len(units),
        units_without=len(units_without),
        steps=broken.steps,
        steps_without=whole.steps,
        repeated_steps=max(0, broken.steps - whole.steps if whole.closures else _begun_again(broken, whole)),
        lost_s=lost_s,
        waited_s=waited_s,
    )


def _begun_again(broken: Session, whole: Session) -> int:
    """How many steps more a task has begun, or ended where all have died: the most of any. Beside survivors, one that died repeats none."""
    down = {task_of(lane) for lane in broken.trace.spans.lanes() if len(broken.trace.spans.rows_where(lane=lane, category="down"))}
    survivors = [task for task in whole.trace.steps if task not in down]
    more = [_begun(broken, task) - _begun(whole, task) for task in survivors]
    if not more:
        more = [len(broken.trace.steps.get(task, ())) - len(ends_s) for task, ends_s in whole.trace.steps.items()]
    return max(more, default=0)


def _begun(session: Session, task: str) -> int:
    """How many steps a task has begun, also those that did not end because another task had died."""
    return len(session.trace.steps.get(task, ())) + session.cluster.world.task(task).broken_steps


def _killed_s(fault: Fault) -> float | None:
    """The second at which a fault that has fired kills a process; None where it kills none."""
    if isinstance(fault, Preempt):
        assert fault.fired_s is not None
        return fault.fired_s + fault.notice
    return fault.fired_s if fault.kind in DEATHS else None


def tasks_of(fault: Fault) -> set[str]:
    """The tasks that a fault names."""
    named: list[Any] = [fault.figures[name] for name, parameter in fault.parameters().items() if parameter.type in ("task", "tasks")]
    return {task for value in named for task in ([value] if isinstance(value, str) else value)}


def _units(broken: Session, whole: Session) -> tuple[list[float], list[float]]:
    """When both runs came on by one; a run that failed before its first closure has not come on at all, whatever steps it took."""
    found = [[] if whole.closures and not session.closures else session.progress_s for session in (broken, whole)]
    return found[0], found[1]


def _phases(
    end_s: float, other_end_s: float, fired_s: float, events: list[tuple[str, float]], progress_s: Sequence[float], other_s: Sequence[float]
) -> Iterator[Phase]:
    def lag_s(moment_s: float) -> float:
        """By how much the run lags at a moment."""
        units = min(bisect_right(progress_s, moment_s), len(other_s))
        behind_s = progress_s[units - 1] - other_s[units - 1] if units and progress_s[units - 1] > fired_s else 0.0
        due_s = other_s[units] if units < len(other_s) else other_end_s
        return max(behind_s, moment_s - due_s)

    last_s = events[-1][1] if events else fired_s
    caught_up_s = _caught_up_s(progress_s, other_s, last_s)
    if caught_up_s is not None and caught_up_s < end_s:
        events = [*events, ("catching up", caught_up_s)]
    begin_s, before_s = fired_s, 0.0
    for name, moment_s in events:
        after_s = lag_s(moment_s)
        yield Phase(name, begin_s, moment_s, before_s, after_s)
        begin_s, before_s = moment_s, after_s
    yield Phase("afterwards", begin_s, end_s, before_s, end_s - other_end_s)


def _events(trace: Trace, fault: Fault, fired_s: float, tasks: set[str]) -> Iterator[tuple[str, float]]:
    """The first event of each kind after a fault that is about its tasks."""
    later = [instant for instant in trace.instants if instant.time_s >= fired_s]
    detected_s = next((instant.time_s for instant in later if instant.category == "detect" and instant.lane in tasks), None)
    decided_s = next((instant.time_s for instant in later if instant.category in DECIDED and _is_about(trace, instant, tasks)), None)
    if _killed_s(fault) is not None:
        restored_s = next((instant.time_s for instant in later if instant.category == "restart" and instant.lane in tasks), None)
    else:
        restored_s = fault.healed_s
    read_s = _read_s(trace, fired_s)
    for name, moment_s in (("detection", detected_s), ("decision", decided_s), ("restoration", restored_s), ("reading", read_s)):
        if moment_s is not None:
            yield name, moment_s


def _read_s(trace: Trace, after_s: float) -> float | None:
    """The end of the first read of a checkpoint that began after a moment."""
    spans = trace.spans
    rows = spans.rows_where(category="checkpoint")
    ends = [float(spans.end[row]) for row in rows[spans.start[rows] >= after_s].tolist() if spans[row].name.startswith("read ")]
    return min(ends, default=None)


def _is_about(trace: Trace, instant: Instant, tasks: set[str]) -> bool:
    """Whether a decision may be about some tasks: it is, unless its cause is known to be about others."""
    return instant.lane in tasks or instant.cause < 0 or trace.record(instant.cause).lane in tasks


def _caught_up_s(progress_s: Sequence[float], other_s: Sequence[float], after_s: float) -> float | None:
    """The unit from which on the lag stays within half of a unit of what it is at the last one that both have."""
    both = min(len(progress_s), len(other_s))
    if not both:
        return None
    near_s = 0.5 * other_s[both - 1] / both
    last_s = progress_s[both - 1] - other_s[both - 1]
    found: float | None = None
    for mine_s, its_s in zip(reversed(progress_s[:both]), reversed(other_s[:both]), strict=True):
        if mine_s <= after_s or abs(mine_s - its_s - last_s) > near_s:
            break
        found = mine_s
    return found


def _idle_s(session: Session, tasks: set[str]) -> float:
    """Seconds that the workers were idle, but for these tasks: their devices, or where they have several no lane of their hosts."""
    lanes = summary(session.trace)["lanes"]
    with_devices = {lane.split("/")[0] for lane in lanes if "/" in lane and "/network" not in lane}
    others = [lane for lane in lanes if lane.startswith("worker:") and lane.split("/")[0] not in tasks and "/network" not in lane]
    return sum(session.now - lanes[lane]["busy_s"] for lane in others if lane not in with_devices)


def _retried(trace: Trace, task: str, fired_s: float) -> set[int]:
    """The closures that were run again because a task died."""
    retries = [instant for instant in trace.instants.where(lane=task, category="retry") if instant.time_s >= fired_s]
    return {int(instant.facts["closure"]) for instant in retries if instant.cause == retries[0].cause}


def _lost_s(trace: Trace, task: str, fired_s: float, retried: set[int]) -> float:
    """Seconds since a task began what it had under way: its closure, or with other replicas a step.

    Args:
        trace: of the run in which the task goes on, and comes to the end of what it had under way.
        task: that died.
        fired_s: when it died.
        retried: closures that were run again; one that has ended is lost, too, where its reply had not arrived.
    """
    spans = trace.spans
    if len(spans.rows_where(category="closure")):
        rows = np.sort(np.concatenate([spans.rows_where(lane=task, category=category) for category in ("closure", "dropped")]))
        begun = rows[spans.start[rows] < fired_s].tolist()
        lost = [row for row in begun if spans.end[row] > fired_s or (row == begun[-1] and spans.facts_of(row)["closure"] in retried)]
        return sum(min(fired_s, float(spans.end[row])) - float(spans.start[row]) for row in lost)
    restarts_s = [instant.time_s for instant in trace.instants.where(lane=task, category="restart")]
    step_began_s = max((moment_s for moment_s in [*trace.steps.get(task, ()), *restarts_s] if moment_s <= fired_s), default=0.0)
    for lane in (lane for lane in spans.lanes() if lane.split("/")[0] == task):
        rows = spans.rows_where(lane=lane)
        under_way = rows[(spans.start[rows] < fired_s) & (spans.end[rows] > step_began_s)].tolist()
        if any(spans[row].category not in IDLE for row in under_way):
            return fired_s - step_began_s
    return 0.0
