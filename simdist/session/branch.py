"""One branch: a program, the commands of its run, and the run itself, which can be put aside and is then done again when it is needed.

A run holds its trace, its variables and its program's memory; what it came from is short. So of many branches only a few keep
their runs, those that were used last (`Family`).
"""

from __future__ import annotations

import warnings
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from simdist.jax_settings import OpenSetting
from simdist.runtime.cluster import Cluster, for_others
from simdist.session.commands import Command
from simdist.session.goals import Moment
from simdist.session.run import Goal, Program, ProgramRun

__all__ = ["MOST_RUNS", "Branch", "Family", "RunAside"]

MOST_RUNS = 8
"""Of how many branches of one family the runs are kept."""
MOST_SECONDS = 200  # readings of the clock on the wall that a branch keeps


@dataclass(frozen=True)
class RunAside:
    """What is known of a run that is not kept: where it stood, what it has said, and how to come there again.

    Args:
        moment: where it stood.
        state, output, commands: as of a `ProgramRun`.
        digest: of its trace.
        has_begun: whether its program has.
    """

    moment: Moment
    state: str
    output: str
    commands: list[Command]
    digest: str
    has_begun: bool

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self.moment.now_s


# Paused runs of branches that are gone, with their threads. A greenlet that stands still is never collected, with all that it holds, until
# it is ended; and that is not done in the middle of whatever the collector has interrupted.
_orphans: deque[tuple[int, ProgramRun]] = deque()


def close_orphans() -> None:
    """End the paused runs of this thread whose branches are gone."""
    for _ in range(len(_orphans)):
        thread, run = _orphans.popleft()
        if thread == get_ident():
            close_quietly(run)
        else:
            _orphans.append((thread, run))


def close_quietly(run: ProgramRun) -> None:
    """End a run, without warnings of faults that have not fired yet: another run comes to them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run.close()


class Family:
    """The branches that came from one session, of which few keep their runs.

    Attributes:
        most_runs: of how many.
    """

    most_runs = MOST_RUNS

    def __init__(self) -> None:
        self._by_use: dict[int, weakref.ReferenceType[Branch]] = {}  # the one that was used last stands last

    def used(self, branch: Branch) -> None:
        """A branch is used now: it keeps its run, and the one that was not used for longest may lose its."""
        self._by_use.pop(id(branch), None)
        self._by_use[id(branch)] = weakref.ref(branch)
        kept = [other for known in self._by_use.values() if (other := known()) is not None and isinstance(other.seen, ProgramRun)]
        for other in kept[: max(0, len(kept) - self.most_runs)]:
            if other is not branch:
                other.put_aside()

    def forget(self, branch_id: int) -> None:
        """A branch is gone."""
        self._by_use.pop(branch_id, None)


class Branch:
    """A program and its run under some commands.

    Args:
        program: a function of a cluster.
        template: the cluster of which each run gets a fresh one.
        commands: in order.
        family: of branches, which share the runs that are kept.
        jax_settings: of JAX, in which each run begins: those of where the session was made.

    Attributes:
        seen: its run, or what is known of it.
        inbox: faults of other threads that the run has not taken yet.
        begun_again: how often it began another run from the start, other than to do a run again that was put aside.
    """

    def __init__(
        self, program: Program, template: Cluster, commands: Sequence[Command], family: Family, jax_settings: Sequence[OpenSetting]
    ) -> None:
        close_orphans()
        self._thread = get_ident()
        self.program = program
        self.template = template
        self.family = family
        self.jax_settings = jax_settings
        self.inbox: deque[Mapping[str, Any]] = deque()
        self.seen: ProgramRun | RunAside = self._new_run(commands)
        self.seen.inbox = self.inbox
        self.begun_again = 0
        self._seconds: list[tuple[float, float]] = []  # virtual second reached, and real seconds that this took; not all of them
        weakref.finalize(self, family.forget, id(self))
        family.used(self)

    def live(self) -> ProgramRun:
        """Its run; one that was put aside is done again first."""
        if isinstance(self.seen, RunAside):
            aside = self.seen
            self.seen = run = self._again(aside)
            if aside.state == "closed":
                run.close()
            run.inbox = self.inbox
        self.family.used(self)
        return self.seen

    def advance(self, goal: Goal) -> None:
        """Let its run go on; as `ProgramRun.advance`."""
        close_orphans()
        run = self.live()
        try:
            run.advance(goal)
        finally:
            self._note_seconds(run)

    def begin_again(self, goal: Goal) -> None:
        """Run again from the start until a goal, with the same commands; as `ProgramRun.advance`."""
        commands = self.seen.commands
        self._drop()
        self.begun_again += 1
        run = self.seen = self._new_run(commands)
        self.family.used(self)
        try:
            run.advance(goal)
        finally:
            run.inbox = self.inbox
            self._note_seconds(run)

    def _note_seconds(self, run: ProgramRun) -> None:
        self._seconds.append((run.now, run.real_s))
        if len(self._seconds) > MOST_SECONDS:  # a run that is played comes by twenty times a second
            del self._seconds[-2::-2]

    def seconds_until(self, t: float) -> float:
        """How many seconds of the clock on the wall it took to come to a virtual second, so far as is known."""
        reached = [real_s for now_s, real_s in self._seconds if now_s >= t]
        return min(reached, default=max((real_s for _, real_s in self._seconds), default=0.0))

    def put_aside(self) -> None:
        """Give back what the run holds; it is done again when it is needed. One that Ctrl-C has ended stays: it would not end again."""
        run = self.seen
        if isinstance(run, RunAside) or run.state == "running" or isinstance(run.error, KeyboardInterrupt):
            return
        self.seen = RunAside(Moment.of(run), run.state, run.output, run.commands, run.cluster.trace.digest(), run.has_begun)
        if run.state != "closed":
            close_quietly(run)

    def __del__(self) -> None:
        seen = getattr(self, "seen", None)
        if isinstance(seen, ProgramRun) and seen.state == "paused":
            _orphans.append((self._thread, seen))

    def _again(self, aside: RunAside) -> ProgramRun:
        run = self._new_run(aside.commands)
        if not aside.has_begun:
            return run
        with warnings.catch_warnings():  # they have been seen
            warnings.simplefilter("ignore")
            try:
                run.advance(aside.moment)
            except BaseException:  # Ctrl-C: what is known of the run stays
                close_quietly(run)
                raise
        return run

    def _new_run(self, commands: Sequence[Command]) -> ProgramRun:
        with for_others():
            cluster = self.template.fresh()
        return ProgramRun(self.program, cluster, commands, self.jax_settings)

    def _drop(self) -> None:
        if isinstance(self.seen, ProgramRun) and self.seen.state != "closed":
            close_quietly(self.seen)
