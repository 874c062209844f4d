"""One run of a program, which stands still between events whenever its goal is reached.

The program is ordinary code. It runs in a greenlet of its own (`program_greenlet`), as the chief's: what it waits for drives the clock from
there, just as in a cell. So a run that is never paused is the run of the cell, event by event. To stand still, the greenlet gives way to
its caller between two events. Between two events come its commands, too (`agenda`).
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from simdist.driving_thread import driving_thread
from simdist.errors import FailedPreconditionError, InvalidArgumentError, SimdistError
from simdist.faults.base import Fault
from simdist.jax_settings import OpenSetting
from simdist.process_state import TaskContext
from simdist.randomness import derive_seed
from simdist.runtime.cluster import Cluster, begin_with
from simdist.runtime.controlled import is_controlled
from simdist.session.agenda import Agenda
from simdist.session.commands import Command
from simdist.session.program_greenlet import Ended, ProgramGreenlet
from simdist.session.progress import steps_of_training_s
from simdist.simulated_process import SimulatedProcess

__all__ = ["Goal", "Program", "ProgramRun", "require_no_faults"]

Program = Callable[[Cluster], Any]
"""What a session runs: a function of a cluster."""


class Goal(Protocol):
    """Where a run shall stand still."""

    def budget(self, run: ProgramRun) -> tuple[int, float] | None:
        """How many events may happen before the goal asks again, and until which virtual second; None: it is reached."""
        ...


class ProgramRun:
    """One run of a program on a cluster of its own.

    Args:
        program: a function of a cluster.
        cluster: at time zero; the run closes it.
        commands: to be done, in order.

    Attributes:
        state: "paused", "running", "finished", "failed" or "closed".
        result: what the program has returned.
        error: what it has failed with.
        output: what it has printed so far.
        closures_s: when each completed closure was completed, in virtual seconds.
        agenda: the commands that are still to come.
        done, faults: the commands that were done, and the fault of each.
        inbox: faults that other threads put there, to be injected between two events.
    """

    def __init__(self, program: Program, cluster: Cluster, commands: Sequence[Command], jax_settings: Sequence[OpenSetting] = ()) -> None:
        self.cluster = cluster
        self.clock = cluster.world.clock
        self.state = "paused"
        self.result: Any = None
        self.error: BaseException | None = None
        self.closures_s: list[float] = []
        self.agenda = Agenda(self.clock, commands)
        self.done: list[Command] = []
        self.faults: list[Fault] = []
        self._program = program
        # The program is one of its own, and begins anew when it is forked: what it draws may not depend on what this process has drawn.
        process = SimulatedProcess({}, derive_seed(cluster.seed, "session", "generators"))
        context, cluster.world.engine_context = TaskContext(process, jax_settings=jax_settings), TaskContext(process)
        is_controlled.set(True, context)
        begin_with(cluster, context)
        self._playing = ProgramGreenlet(self._play, context)
        self._goal: Goal | None = None
        self.inbox: deque[Mapping[str, Any]] = deque()
        self._stop: BaseException | None = None  # what the caller of `advance` gets, and not the program
        self.clock.pauses = self
        cluster.world.closure_completed.append(lambda: self.closures_s.append(self.clock.now))

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self.clock.now

    @property
    def real_s(self) -> float:
        """Seconds that the run has taken so far, of the clock on the wall."""
        return self._playing.real_s

    @property
    def output(self) -> str:
        return self._playing.output

    def last_output(self, characters: int) -> str:
        """The end of the output, without a copy of all of it."""
        return self._playing.last_output(characters)

    @property
    def commands(self) -> list[Command]:
        """Those that were done, and those that are still to come."""
        return [*self.done, *self.agenda.waiting]

    @property
    def has_begun(self) -> bool:
        """Whether the program has begun: before that it stands at time zero, and has done nothing."""
        return self._playing.is_alive or self._playing.has_ended

    @property
    def is_over(self) -> bool:
        """Whether the program has ended."""
        return self.state in ("finished", "failed", "closed")

    @property
    def steps(self) -> int:
        """How many steps the workers have ended, as the log counts them: one that was undone counts no more."""
        return self.cluster.trace.num_steps

    @property
    def closures(self) -> int:
        """How many closures have been completed."""
        return len(self.closures_s)

    @property
    def progress_s(self) -> list[float]:
        """When the run came on by one: at each completed closure, or where it has none at each step that took the training further."""
        return self.closures_s or steps_of_training_s(self.cluster.trace)

    @property
    def is_settled(self) -> bool:
        """Whether all that is due at the present second has happened."""
        return not self.clock.queue or self.agenda.next_s() > self.clock.now

    def advance(self, goal: Goal) -> None:
        """Go on until a goal is reached or the program ends.

        Raises:
            KeyboardInterrupt: Ctrl-C. Where it came between two events the run stands still there; in the program's own code it has ended
                the program.
            InvalidArgumentError: a command makes no sense on this cluster; it is left out, and the run stands still where it was due.
        """
        self._goal = goal
        if not self.is_over:
            self._switch(self._playing.go_on)
            if self.is_over:
                self._warn_of_what_is_left()
            if isinstance(self.error, KeyboardInterrupt):  # it is for the one who waits, who may have asked for a fork or a trace only
                raise self.error
        stop, self._stop = self._stop, None
        if stop is not None:
            raise stop

    def inject(self, fault: Mapping[str, Any]) -> Command:
        """Inject a fault now, while the run stands still.

        Raises:
            InvalidArgumentError: it is not known, or makes no sense here; nothing is changed then.
        """
        command = Command(self.clock.now, fault, self.clock.events)
        self._plan(command)
        self.agenda.go_by_time()
        return command

    def check(self, fault: Mapping[str, Any]) -> None:
        """Refuse a fault that makes no sense here, before anything happens.

        Raises:
            InvalidArgumentError: it makes none.
        """
        if not self.is_over:
            self.cluster.faults.require(Command(self.clock.now, fault).fault_at(self.clock.now))

    def _plan(self, command: Command) -> None:
        fault = command.fault_at(self.clock.now)
        self.cluster.faults.add(fault)
        self.done.append(command)
        self.faults.append(fault)

    def close(self) -> None:
        """End the program where it is, and close its cluster."""
        self._goal = None
        if not self.is_over:
            self.cluster.engine.unfinished.clear()  # the program has not ended: it is taken away in the middle
        if self._playing.is_alive:
            self._switch(self._playing.end)
        self.clock.pauses, self.state = None, "closed"
        self.cluster.close()

    def _warn_of_what_is_left(self) -> None:
        while self.inbox:  # one by one: another thread may add to it
            self.agenda.waiting.append(Command(self.clock.now, self.inbox.popleft()))
        waiting = self.agenda.waiting
        if waiting:
            warnings.warn(
                f"The program is {self.state} at {self.clock.now:.6f} s, before {len(waiting)} of its commands: {waiting!r}.",
                stacklevel=4,
            )

    def _switch(self, enter: Callable[[], object]) -> None:
        with driving_thread:
            before, self.state = self.state, "running"
            try:
                enter()
            except BaseException as error:
                if self._playing.has_ended and self.state == "running":
                    self._fail(error)  # Ctrl-C, around the program's own code
                raise
            finally:
                if self.state == "running":
                    self.state = before

    # -- in the program's greenlet --------------------------------------------------------------------------------

    def _play(self) -> None:
        try:
            self.result = self._program(self.cluster)
            self.state = "finished"
        except Ended:
            self.state = "closed"
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.error, self.state = error, "failed"
        if isinstance(error, KeyboardInterrupt):
            error.add_note(f"Ctrl-C has ended the program of this session at {self.now:.6f} s. Go back with session.rewind(t), and go on.")

    def before_events(self) -> tuple[int, float]:
        if self.state == "paused":
            raise FailedPreconditionError(
                f"The cluster of a session that stands still at {self.now:.6f} s was to go on. Its time passes in the session alone: call "
                "session.advance(), or give sd.sleep another cluster."
            )
        while True:
            if self._goal is None:
                self._playing.give_up()
            try:
                while self.inbox:
                    self.inject(self.inbox.popleft())
                budget = None if self._stop or self._goal is None else self._goal.budget(self)
                command = self.agenda.due()
                # A goal that is reached before the second of the command leaves it for later.
                if command is not None and (budget is not None or self.agenda.second_of(command) <= self.clock.now):
                    self._do(command)
                    continue
            except SimdistError as error:
                self._stop, budget = error, None
            if budget is not None:
                return self.agenda.until_a_command(*budget)
            self._playing.give_way()

    def interrupted(self) -> None:
        self._stop = KeyboardInterrupt()

    def _do(self, command: Command) -> None:
        self.agenda.stand_at(command.at_s)
        del self.agenda.waiting[0]
        self._plan(command)


def require_no_faults(cluster: Cluster) -> None:
    """Refuse a cluster of which no run can be made, or not as it is.

    Raises:
        FailedPreconditionError: it has no time.
        InvalidArgumentError: it has planned faults, which its runs would not have.
    """
    try:
        planned = len(cluster.faults)
    except FailedPreconditionError:
        raise FailedPreconditionError(
            "A session stands still between two events of virtual time, and this cluster has no time. Make it with engine='simulated'."
        ) from None
    if planned:
        raise InvalidArgumentError(
            f"The cluster has {planned} planned faults, and each run gets a fresh one without them. Give them to the session as commands, "
            "or plan them in the program."
        )
