"""One run of a program, which stands still between events whenever its goal is reached.

The program is ordinary code. It runs in a greenlet of its own, as the chief's: what it waits for drives the clock from there, just as in
a cell. So a run that is never paused is the run of the cell, event by event. To stand still, the greenlet gives way to its
caller between two events.

Invariants: while a run stands still, the process has the caller's state (Keras, JAX, standard output), and Ctrl-C is Python's.
"""

from __future__ import annotations

import io
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import greenlet

from simdist import debugging
from simdist.driving_thread import driving_thread
from simdist.errors import FailedPreconditionError, InvalidArgumentError, SimdistError
from simdist.faults.base import Fault
from simdist.process_state import TaskContext, active
from simdist.randomness import derive_seed
from simdist.runtime.cluster import Cluster, begin_with
from simdist.runtime.controlled import is_controlled
from simdist.session.commands import Command
from simdist.session.progress import steps_of_training_s
from simdist.simulated_process import SimulatedProcess

__all__ = ["Goal", "Program", "ProgramRun", "require_no_faults"]

Program = Callable[[Cluster], Any]
"""What a session runs: a function of a cluster."""
# Events that may happen before commands of other threads are looked after.
SLICE_EVENTS = 2_000
# A program that swallows its end this often is left where it is.
ENDS_BEFORE_LEFT = 100


class Ended(BaseException):
    """Raised in a program whose run is over before it has come to its end."""


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
        real_s: seconds that the run has taken so far, of the clock on the wall.
        done, faults: the commands that were done, and the fault of each.
        inbox: faults that other threads put there, to be injected between two events.
    """

    def __init__(self, program: Program, cluster: Cluster, commands: Sequence[Command]) -> None:
        self.cluster = cluster
        self.clock = cluster.world.clock
        self.state = "paused"
        self.result: Any = None
        self.error: BaseException | None = None
        self.closures_s: list[float] = []
        self.real_s = 0.0
        self.waiting = list(commands)
        self.done: list[Command] = []
        self.faults: list[Fault] = []
        self._program = program
        self._stream = io.StringIO()
        # The program is one of its own, and begins anew when it is forked: what it draws may not depend on what this process has drawn.
        process = SimulatedProcess({}, derive_seed(cluster.seed, "session", "generators"))
        self._context, cluster.world.engine_context = TaskContext(process), TaskContext(process)
        is_controlled.set(True, self._context)
        begin_with(cluster, self._context)
        self._goal: Goal | None = None
        self.inbox: deque[Mapping[str, Any]] = deque()
        self._ends = 0
        self._debugging: list[bool | None] = []  # the position of the switch that the program has turned; empty: that of its caller
        self._stop: BaseException | None = None  # what the caller of `advance` gets, and not the program
        self._greenlet = greenlet.greenlet(self._play)
        self.clock.pauses = self
        cluster.world.closure_completed.append(lambda: self.closures_s.append(self.clock.now))

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self.clock.now

    @property
    def output(self) -> str:
        return self._stream.getvalue()

    def last_output(self, characters: int) -> str:
        """The end of the output, without a copy of all of it."""
        self._stream.seek(max(0, self._stream.tell() - characters))
        return self._stream.read()

    @property
    def commands(self) -> list[Command]:
        """Those that were done, and those that are still to come."""
        return [*self.done, *self.waiting]

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

    def next_s(self) -> float:
        """When the next event comes; the present second where none is to come."""
        return self.clock.queue[0][0] if self.clock.queue else self.clock.now

    @property
    def is_settled(self) -> bool:
        """Whether all that is due at the present second has happened."""
        return not self.clock.queue or self.next_s() > self.clock.now

    def stand_at(self, now_s: float) -> None:
        """Let virtual time go on to a second, though not beyond the next event, nor beyond a command that comes before it."""
        command, now = self._due(), self.clock.now
        until_s = self.next_s() if command is None else self._second_of(command)
        self.clock.stand_at(min(max(now_s, now), max(until_s, now)))

    def advance(self, goal: Goal) -> None:
        """Go on until a goal is reached or the program ends.

        Raises:
            KeyboardInterrupt: Ctrl-C. Where it came between two events the run stands still there; in the program's own code it has ended
                the program.
            InvalidArgumentError: a command makes no sense on this cluster; it is left out, and the run stands still where it was due.
        """
        self._goal = goal
        if not self.is_over:
            self._switch(self._greenlet.switch)
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
        # What comes later comes at its second: other events happen before it now.
        self.waiting = [later.by_time() for later in self.waiting]
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
        if self._greenlet:
            self._switch(lambda: self._greenlet.throw(Ended))
        self.clock.pauses, self.state = None, "closed"
        self.cluster.close()

    def _warn_of_what_is_left(self) -> None:
        while self.inbox:  # one by one: another thread may add to it
            self.waiting.append(Command(self.clock.now, self.inbox.popleft()))
        if self.waiting:
            warnings.warn(
                f"The program is {self.state} at {self.clock.now:.6f} s, before {len(self.waiting)} of its commands: {self.waiting!r}.",
                stacklevel=4,
            )

    # -- in the program's greenlet --------------------------------------------------------------------------------

    def _play(self) -> None:
        try:
            self.result = self._program(self.cluster)
            self.state = "finished"
        except Ended:
            self.state = "closed"
        except BaseException as error:
            self.error, self.state = error, "failed"
            if isinstance(error, KeyboardInterrupt):
                error.add_note(
                    f"Ctrl-C has ended the program of this session at {self.now:.6f} s. Go back with session.rewind(t), and go on."
                )

    def before_events(self) -> tuple[int, float]:
        if self.state == "paused":
            raise FailedPreconditionError(
                f"The cluster of a session that stands still at {self.now:.6f} s was to go on. Its time passes in the session alone: call "
                "session.advance(), or give sd.sleep another cluster."
            )
        while True:
            if self._goal is None:
                self._end()
            try:
                while self.inbox:
                    self.inject(self.inbox.popleft())
                budget = None if self._stop or self._goal is None else self._goal.budget(self)
                command = self._due()
                # A goal that is reached before the second of the command leaves it for later.
                if command is not None and (budget is not None or self._second_of(command) <= self.clock.now):
                    self._do(command)
                    continue
            except SimdistError as error:
                self._stop, budget = error, None
            if budget is not None:
                return self._until_a_command(*budget)
            self._give_way()

    def _end(self) -> None:
        """Take the program out of its wait for good."""
        self._ends += 1
        while self._ends > ENDS_BEFORE_LEFT:
            self._give_way()
        raise Ended

    def _give_way(self) -> None:
        assert self._greenlet.parent is not None
        self._greenlet.parent.switch()

    def interrupted(self) -> None:
        self._stop = KeyboardInterrupt()

    def _until_a_command(self, most_events: int, until_s: float) -> tuple[int, float]:
        most_events = min(most_events, SLICE_EVENTS)
        if self.waiting:
            command = self.waiting[0]
            until_s = min(until_s, command.at_s)
            if command.after_events is not None:
                most_events = min(most_events, max(1, command.after_events - self.clock.events))
        return most_events, until_s

    def _due(self) -> Command | None:
        """The command whose time it is."""
        if not self.waiting:
            return None
        command = self.waiting[0]
        if command.after_events is not None and self.clock.events >= command.after_events:
            return command
        # Also where fewer events have happened: then the program is another one, and waits for ever for the rest.
        return command if self.next_s() > command.at_s or not self.clock.queue else None

    def _second_of(self, command: Command) -> float:
        """At which second a command is done that is due: its own, unless the next event comes before."""
        return min(command.at_s, self.next_s()) if self.clock.queue else command.at_s

    def _do(self, command: Command) -> None:
        self.stand_at(command.at_s)
        del self.waiting[0]
        self._plan(command)

    # -- between the two ------------------------------------------------------------------------------------------

    def _switch(self, enter: Callable[[], object]) -> None:
        """Run the program until it stands still; it has its own process-wide state, and its own standard output."""
        with driving_thread:
            self._switch_here(enter)

    def _switch_here(self, enter: Callable[[], object]) -> None:
        self._greenlet.parent = greenlet.getcurrent()
        own, stream, began, before = active.context, sys.stdout, time.perf_counter(), self.state
        self.state = "running"
        sys.stdout = self._stream
        self._context.replace(own)
        try:
            with suppress(greenlet.GreenletExit), self._debugging_of_its_own():
                enter()
        finally:
            self._context = active.context
            own.replace(self._context)
            sys.stdout = stream
            self.real_s += time.perf_counter() - began
            if self.state == "running":
                self.state = before

    @contextmanager
    def _debugging_of_its_own(self) -> Iterator[None]:
        """Where the program turns the switch of `sd.debug`, its caller finds it as it was, and the program as it left it."""
        outer = debugging.position()
        entered = self._debugging[0] if self._debugging else outer
        debugging.turn(entered)
        try:
            yield
        finally:
            left = debugging.position()
            if left != entered:
                self._debugging = [left]
            debugging.turn(outer)


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
