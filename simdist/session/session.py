"""`Session`: a run of a program that is paused, broken on purpose, rewound and forked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from threading import get_ident
from typing import Any, cast

from simdist.arguments import END_S, number
from simdist.driving_thread import driving_thread
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.faults.base import Fault
from simdist.runtime.cluster import Cluster
from simdist.session.branch import Branch, Family, RunAside
from simdist.session.commands import Command, in_order, plain_command_fault
from simdist.session.comparison import Comparison, compare
from simdist.session.goals import Moment, UntilEvents, UntilSecond, goal_of
from simdist.session.run import Goal, Program, ProgramRun, require_no_faults
from simdist.simulation.fiber import current_fiber
from simdist.trace import Trace
from simdist.uncopied import Uncopied

__all__ = ["Session"]

# Events that happen before `play` lets the notebook's own work go on: some milliseconds.
EVENTS_OF_A_FRAME = 500


class Session(Uncopied, instead="session.fork(session.now) is another one, and sd.share(session) a text of it."):
    """A program on a virtual cluster, under control: pause it, break it, rewind it, fork it.

    The program is ordinary code and runs as in a cell. To the end and without commands it has the trace and the numbers of
    ``program(cluster.fresh())``. Nothing is saved to go back: a session runs again from the beginning, with the same commands, which gives
    the same run.

    Args:
        program: a function of a cluster: a fit, a loop over a coordinator's closures, launched mains. It makes its variables and
            models itself, so that each run has new ones.
        cluster: what kind of cluster it gets, and with which seed; each run has a fresh one, and this one is not used.
        commands: of another session, which are done again; default none.

    Attributes:
        cluster: that of the present run.

    Raises:
        TypeError: the program cannot be called, the cluster is none, or commands that are none.
        InvalidArgumentError: the cluster has planned faults, which its fresh copies would not have.
        FailedPreconditionError: the cluster has no virtual time.

    Example:
        >>> import simdist as sd
        >>> def program(cluster):
        ...     for hour in range(3):
        ...         sd.sleep(3600.0, cluster)
        ...     return "done"
        >>> session = Session(program, sd.Cluster({"worker": 2}))
        >>> session.advance(until=4000.0)
        >>> session.now, session.state
        (4000.0, 'paused')
        >>> _ = session.inject({"kind": "crash", "task": "worker:1"})
        >>> session.advance()
        >>> session.result, [command.at_s for command in session.commands]
        ('done', [4000.0])
    """

    def __init__(self, program: Program, cluster: Cluster, commands: Iterable[Command] | None = None) -> None:
        given = _checked(program, cluster, commands)
        self._thread = get_ident()
        self._branch = Branch(program, cluster, in_order(given), Family())

    # -- what can be seen -----------------------------------------------------------------------------------------

    @property
    def program(self) -> Program:
        """What runs."""
        return self._branch.program

    @property
    def cluster(self) -> Cluster:
        return self._live().cluster

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self._branch.seen.now

    @property
    def state(self) -> str:
        """ "paused", "running" (seen by the program itself), "finished", "failed" or "closed"."""
        return self._branch.seen.state

    @property
    def trace(self) -> Trace:
        """What has happened so far."""
        return self._live().cluster.trace

    @property
    def result(self) -> Any:
        """What the program has returned.

        Raises:
            FailedPreconditionError: it has not yet.
        """
        if self.state != "finished":
            raise FailedPreconditionError(
                f"The program has no result: it is {self.state} at {self.now:.6f} s. Call session.advance() first."
            )
        return self._live().result

    @property
    def error(self) -> BaseException | None:
        """What the program has failed with."""
        return self._live().error

    @property
    def output(self) -> str:
        """What the program has printed in this run."""
        return self._branch.seen.output

    def last_output(self, characters: int) -> str:
        """So many characters of the end of the output."""
        seen = self._branch.seen
        return seen.output[-characters:] if isinstance(seen, RunAside) else seen.last_output(characters)

    @property
    def commands(self) -> list[Command]:
        """What was injected, in order; also what is still to come after a rewind."""
        return list(self._branch.seen.commands)

    @property
    def steps(self) -> int:
        """How many steps the workers have ended, all together."""
        return self._live().steps

    @property
    def closures(self) -> int:
        """How many closures have been completed."""
        return self._live().closures

    @property
    def progress_s(self) -> list[float]:
        """When the run came on by one, in virtual seconds: by a completed closure, or where it has none by a step."""
        return list(self._live().progress_s)

    @property
    def pace_s(self) -> float | None:
        """Virtual seconds that the run took on average to come on by one; None before the first time."""
        progress_s = self._live().progress_s
        return progress_s[-1] / len(progress_s) if progress_s else None

    @property
    def is_settled(self) -> bool:
        """Whether all that is due at the present second has happened, so that ``advance(until=session.now)`` does nothing."""
        return self._live().is_settled

    @property
    def begun_again(self) -> int:
        """How often a run began from the start because of `rewind`: what was seen of the run before is void then."""
        return self._branch.begun_again

    @property
    def faults(self) -> list[Fault]:
        """The faults of the commands that were done, in order; each one tells when it fired and healed."""
        return list(self._live().faults)

    @property
    def is_kept(self) -> bool:
        """Whether the run is in memory. Of a session and its forks the 8 are that were used last; others run again when they are used."""
        return isinstance(self._branch.seen, ProgramRun)

    def digest(self) -> str:
        """The digest of the run so far."""
        seen = self._branch.seen
        return seen.digest if isinstance(seen, RunAside) else seen.cluster.trace.digest()

    def moment(self) -> Moment:
        """Where the run stands, exactly."""
        seen = self._branch.seen
        return seen.moment if isinstance(seen, RunAside) else Moment.of(seen)

    def _live(self) -> ProgramRun:
        """The run; one that is not kept is done again first."""
        if isinstance(self._branch.seen, RunAside):
            self._require_outside("advance")
        return self._branch.live()

    # -- going on -------------------------------------------------------------------------------------------------

    def advance(
        self,
        until: float | None = None,
        by: float | None = None,
        events: int | None = None,
        steps: int | None = None,
        closures: int | None = None,
    ) -> None:
        """Go on, to the end or until something; give one argument at most.

        Args:
            until: a virtual second; what is due then still happens.
            by: so many virtual seconds more.
            events: so many events more.
            steps: so many steps of workers more, all workers together.
            closures: so many completed closures more, of all coordinators.

        Raises:
            InvalidArgumentError: several arguments, a second that is over, or a number that is none.
            FailedPreconditionError: called by the program itself, from a task, or from another thread.
            KeyboardInterrupt: Ctrl-C; the session is paused, and can go on. In the program's own code it ends it; `rewind` goes back.
            BaseException: what the program fails with, now or before; `rewind` goes back to before.
        """
        self._require_outside("advance")
        self._require_open("advance")
        goal = goal_of(self._live(), until=until, by=by, events=events, steps=steps, closures=closures)
        self._branch.advance(goal)
        self._raise_error()

    def advance_to(self, goal: Goal) -> None:
        """Go on until a goal, for example a `Moment` of a run with the same commands, or the end of a `Frame`.

        Raises:
            As `advance`.
        """
        self._require_outside("advance")
        self._require_open("advance")
        self._branch.advance(goal)
        self._raise_error()

    def _raise_error(self) -> None:
        error = self._live().error
        if error is not None:
            raise error

    async def play(self) -> None:
        """Go on to the end, and let the notebook's own work go on meanwhile.

        Raises:
            BaseException: as `advance`.
        """
        while self.state == "paused":
            self.advance(events=EVENTS_OF_A_FRAME)
            await asyncio.sleep(0)
        self._raise_error()

    # -- breaking it ----------------------------------------------------------------------------------------------

    def inject(self, fault: Fault | Mapping[str, Any]) -> Command | None:
        """Inject a fault: now, unless it says when.

        Now is after all that has happened, also at this very moment: `advance(until=t)` lets everything of the second t happen first. The
        same fault with ``"at": t`` begins before what follows from that second, and concerns the messages that are sent in it, but after
        what was due at t already when it was injected: the end of the wait in which the program stands, so also of its first one. A fault
        that the program itself plans before it waits (``cluster.faults``) comes first.

        Args:
            fault: of any kind, as an object or as a dict such as ``{"kind": "crash", "task": "worker:1", "restart_after": 0.005}``;
                with ``"at"`` or ``"after_steps"`` it begins then.

        Returns:
            The command; None from another thread, where it is done between the next two events.

        Raises:
            TypeError: it is neither.
            InvalidArgumentError: it is not known, makes no sense here, or begins when a predicate holds; nothing is changed.
            FailedPreconditionError: the program has ended, or calls this itself.
            KeyboardInterrupt: Ctrl-C, before the program has come to its first wait.
        """
        plain = plain_command_fault(fault)
        if get_ident() != self._thread:
            Command(0.0, plain)
            if self.state in ("finished", "failed", "closed"):
                raise FailedPreconditionError(f"The program is {self.state}: there is no moment at which the fault can begin.")
            self._branch.inbox.append(plain)
            return None
        self._require_outside("inject")
        self._require_open("inject")
        run = self._live()
        run.check(plain)
        self._branch.advance(UntilEvents(run.clock.events))  # a program that has not begun comes to its first wait
        if run.is_over:
            why = "" if run.error is None else f" with {type(run.error).__name__}: {run.error}".rstrip(".: ")
            raise FailedPreconditionError(
                f"The program has {self.state} at {self.now:.6f} s{why}. Go back with session.rewind(t), and inject there."
            )
        return run.inject(plain)

    # -- other runs -----------------------------------------------------------------------------------------------

    def rewind_seconds(self, t: float) -> float:
        """About how many seconds `rewind` takes: as many as it took to come there, of the clock on the wall."""
        return self._branch.seconds_until(t)

    def rewind(self, t: float) -> None:
        """Go back to a virtual second, by running again until then. Commands that come later are done again at their time.

        Args:
            t: the virtual second; what is due then has happened.

        Raises:
            InvalidArgumentError: the second has not come yet, or is none.
            FailedPreconditionError: called by the program itself, from a task, or from another thread.
            KeyboardInterrupt: as `advance`.
        """
        self._require_outside("rewind")
        if number(t, "t", below=END_S) > self.now:
            raise InvalidArgumentError(f"t={t!r} s has not come yet: it is {self.now:.6f} s. Use session.advance(until={t!r}).")
        self._branch.begin_again(UntilSecond(float(t)))

    def fork(self, t: float, without: Iterable[Command] = (), plus: Iterable[Command] = ()) -> Session:
        """Another session with the same program, at a virtual second, with other commands. This one is not changed.

        Args:
            t: the virtual second.
            without: commands of this session that the other one does not have.
            plus: commands that it has in addition.

        Raises:
            InvalidArgumentError: `without` has a command that this session does not have, or `t` is no second.
            TypeError: one of `without` or `plus` is no command.
            KeyboardInterrupt: Ctrl-C; there is no fork then.
        """
        self._require_outside("fork")
        number(t, "t", below=END_S)
        removed, added = _as_commands(without, "without"), [command.by_time() for command in _as_commands(plus, "plus")]
        before = commands = self.commands
        for command in removed:
            if command not in commands:
                raise InvalidArgumentError(f"without={command!r}: this session has no such command. It has {self.commands!r}.")
            place = commands.index(command)
            commands = [*commands[:place], *commands[place + 1 :]]
        commands = in_order([*commands, *added])
        # Up to the first change the same events happen, and the same commands are done exactly where they were.
        same = next((place for place, pair in enumerate(zip(commands, before, strict=False)) if pair[0] != pair[1]), len(before))
        other = self._sibling([*commands[:same], *(command.by_time() for command in commands[same:])])
        try:
            other.advance(until=t)
        except BaseException as error:
            # A program that fails before has failed in its own session; Ctrl-C is no failure of it.
            if error is not other.error or isinstance(error, KeyboardInterrupt):
                raise
        return other

    def _sibling(self, commands: Iterable[Command]) -> Session:
        other = Session.__new__(Session)
        other._thread = self._thread
        other._branch = Branch(self._branch.program, self._branch.template, in_order(commands), self._branch.family)
        return other

    def compare(self, other: Session) -> Comparison:
        """Up to where another session's run is the same, and the first difference."""
        return compare(self, other)

    def close(self) -> None:
        """End the run, and give back what it holds; faults that never fired are a warning. `rewind` begins another run."""
        self._require_outside("close")
        if self.state != "closed":
            self._live().close()

    def _require_open(self, what: str) -> None:
        if self.state == "closed":
            raise FailedPreconditionError(f"session.{what}() was called after session.close(). Begin another run with session.rewind(0.0).")

    def _require_outside(self, what: str) -> None:
        if get_ident() != self._thread:
            raise FailedPreconditionError(
                f"session.{what}() was called from another thread than the one that made the session. Virtual time has one thread: "
                "call it there; from others use session.inject(fault)."
            )
        driving_thread.require()
        if self.state == "running" or current_fiber() is not None:
            raise FailedPreconditionError(
                f"session.{what}() was called by a running program. Call it in the notebook, between two advances."
            )

    def __repr__(self) -> str:
        return f"Session({self.state} at {self.now:.6f} s, {len(self.commands)} command{'s' * (len(self.commands) != 1)})"


def _checked(program: Program, cluster: Cluster, commands: Iterable[Command] | None) -> list[Command]:
    """The commands of a session whose arguments make sense."""
    if not callable(program):
        raise TypeError(f"program is {program!r}; expected a function of a cluster")
    if not isinstance(cast("object", cluster), Cluster):
        raise TypeError(f"cluster is {cluster!r}; expected a Cluster, of which each run gets a fresh one")
    require_no_faults(cluster)
    return _as_commands([] if commands is None else commands, "commands")


def _as_commands(commands: Iterable[Command], name: str) -> list[Command]:
    """The commands that an argument of this name has."""
    if not isinstance(cast("object", commands), Iterable):
        raise TypeError(f"{name} is {commands!r}; expected a list of commands")
    given = list(commands)
    wrong = [command for command in given if not isinstance(cast("object", command), Command)]
    if wrong:
        raise TypeError(f"{name} has {wrong[0]!r}; expected the commands of a session, or those of commands_from_json(text)")
    return given
