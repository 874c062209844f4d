"""What a fault has cost: the story of one failure, against the run in which it did not happen.

The other run is exact: the same program, cluster, seed and commands, without this one. Both come on by units: completed closures, or
where there are none steps. How far the run *lags* is when it had come so far, less when the other one had; while the next unit is
overdue it lags by at least the time that has passed since. The lag is 0 before the fault, and at the end it is the difference of both
runs. So what it grows by in each phase of the recovery sums to that difference, exactly. A phase in which the cluster gains time costs
less than nothing.

    phase       ends with
    detection   the first task believes that something is down
    decision    a closure is run again or cancelled, or a group of replicas changes its size
    restoration the task is started again, or the fault heals
    catching up the lag has come near what it is at the end, and stays there
    afterwards  the end of the run

A phase whose event does not come is left out, and the events may come in another order: each phase is called after the event that ends it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.faults.base import Fault
from simdist.session.commands import Command
from simdist.session.session import Session
from simdist.trace.summary import summary

__all__ = ["Phase", "Recovery", "recovery"]

DETECTED = ("detect",)
DECIDED = ("retry", "cancel", "resize")
RESTORED = ("restart", "heal")


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
        units, units_without: how far both came, in closures or steps.
        steps, steps_without: that all workers have taken.
        lost_s: of work under way that died with its task.
        waited_s: seconds that all other workers were idle for longer.
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
    lost_s: float
    waited_s: float
    loss: float | None = None
    loss_without: float | None = None

    @property
    def cost_s(self) -> float:
        """By how much the run ended later."""
        return self.end_s - self.end_without_s

    @property
    def repeated_steps(self) -> int:
        """How many steps more the workers have taken."""
        return self.steps - self.steps_without

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
        if self.units != self.units_without:
            yield "came to", f"{self.units} of {self.units_without} closures or steps"
        yield "repeated", f"{self.repeated_steps} steps"
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
    if fault is not None and fault.fired_s is not None:
        tasks = tasks_of(fault)
        phases = tuple(_phases(broken, fault.fired_s, tasks, broken.progress_s, whole.progress_s, whole.now))
        waited_s = _idle_s(broken, tasks) - _idle_s(whole, tasks)
        lost_s = _lost_s(broken, fault.fired_s, tasks) if fault.kind in ("crash", "lose_host") else 0.0
    return Recovery(
        fault=fault.describe() if fault is not None else str(dict(broken.commands[number].fault)),
        state=broken.state,
        state_without=whole.state,
        phases=phases,
        end_s=broken.now,
        end_without_s=whole.now,
        units=len(broken.progress_s),
        units_without=len(whole.progress_s),
        steps=broken.steps,
        steps_without=whole.steps,
        lost_s=lost_s,
        waited_s=waited_s,
    )


def tasks_of(fault: Fault) -> set[str]:
    """The tasks that a fault names."""
    named: list[Any] = [fault.figures[name] for name, parameter in fault.parameters().items() if parameter.type in ("task", "tasks")]
    return {task for value in named for task in ([value] if isinstance(value, str) else value)}


def _phases(
    session: Session, fired_s: float, tasks: set[str], progress_s: Sequence[float], other_s: Sequence[float], other_end_s: float
) -> Iterator[Phase]:
    def lag_s(moment_s: float) -> float:
        """By how much the run lags at a moment."""
        units = min(bisect_right(progress_s, moment_s), len(other_s))
        behind_s = progress_s[units - 1] - other_s[units - 1] if units and progress_s[units - 1] > fired_s else 0.0
        due_s = other_s[units] if units < len(other_s) else other_end_s
        return max(behind_s, moment_s - due_s)

    events = sorted(_events(session, fired_s, tasks), key=lambda event: event[1])
    last_s = events[-1][1] if events else fired_s
    end_s, total_s = session.now, session.now - other_end_s
    caught_up_s = _caught_up_s(progress_s, other_s, last_s)
    if caught_up_s is not None and caught_up_s < end_s:
        events.append(("catching up", caught_up_s))
    begin_s, before_s = fired_s, 0.0
    for name, moment_s in events:
        after_s = lag_s(moment_s)
        yield Phase(name, begin_s, moment_s, before_s, after_s)
        begin_s, before_s = moment_s, after_s
    yield Phase("afterwards", begin_s, end_s, before_s, total_s)


def _events(session: Session, fired_s: float, tasks: set[str]) -> Iterator[tuple[str, float]]:
    """The first event of each kind after a fault that is about its tasks."""
    for name, categories in (("detection", DETECTED), ("decision", DECIDED), ("restoration", RESTORED)):
        for instant in session.trace.instants:
            about = name == "decision" or instant.lane in tasks or any(task in instant.name for task in tasks)
            if instant.category in categories and instant.time_s >= fired_s and about:
                yield name, instant.time_s
                break


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
    """Seconds that the workers were idle, but for these tasks."""
    lanes = summary(session.trace)["lanes"]
    others = [lane for lane in lanes if lane.startswith("worker:") and lane.split("/")[0] not in tasks and "/network" not in lane]
    return sum(session.now - lanes[lane]["busy_s"] for lane in others)


def _lost_s(session: Session, fired_s: float, tasks: set[str]) -> float:
    """Seconds since the tasks that died had ended their last closure, or step, where they were at work on another one."""
    lost_s = 0.0
    for task in tasks:
        spans = [span for span in session.trace.spans.where(lane=task) if span.start_s < fired_s]
        ended = [span.end_s for span in spans if span.category == "closure" and span.end_s <= fired_s]
        retried = any(instant.time_s >= fired_s for instant in session.trace.instants.where(lane=task, category="retry"))
        if not ended and not retried:
            ended = [unit_s for unit_s in session.progress_s if unit_s <= fired_s]
            retried = any(span.start_s >= max(ended, default=0.0) and span.category not in ("down", "wait") for span in spans)
        lost_s += fired_s - max(ended, default=0.0) if retried else 0.0
    return lost_s
