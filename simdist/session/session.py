"""`Session`: a run of a program that is paused, broken on purpose, rewound and forked. What can be seen of it: `simdist.session.view`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from threading import get_ident
from typing import Any, cast

from simdist.arguments import END_S, number, takes
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.faults.base import Fault
from simdist.jax_settings import open_settings
from simdist.runtime.cluster import Cluster
from simdist.session.branch import Branch, Family
from simdist.session.commands import Command, commands_of, in_order, plain_command_fault
from simdist.session.comparison import Comparison, compare
from simdist.session.forking import commands_of_fork
from simdist.session.goals import UntilEvents, UntilSecond, goal_of
from simdist.session.run import Goal, Program, require_no_faults
from simdist.session.view import SessionView
from simdist.uncopied import Uncopied

__all__ = ["Session"]

# Events that happen before `play` lets the notebook's own work go on: some milliseconds.
EVENTS_OF_A_FRAME = 500


class Session(SessionView, Uncopied, instead="session.fork(session.now) is another one, and sd.share(session) a text of it."):
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
        TypeError: the program cannot be called with a cluster, the cluster is none, or commands that are none.
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
        super().__init__(Branch(program, cluster, in_order(given), Family(), open_settings()), get_ident())

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
            TypeError: it is no goal.
            Otherwise as `advance`.
        """
        if not callable(getattr(goal, "budget", None)):
            raise TypeError(f"goal is {goal!r:.200}; expected a goal, such as session.moment(). To a second goes advance(until=...).")
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
        return self._branch.seconds_until(number(t, "t"))

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
        other = self._sibling(commands_of_fork(self.commands, without, plus))
        try:
            other.advance(until=t)
        except BaseException as error:
            # A program that fails before has failed in its own session; Ctrl-C is no failure of it.
            if error is not other.error or isinstance(error, KeyboardInterrupt):
                raise
        return other

    def _sibling(self, commands: Iterable[Command]) -> Session:
        other, branch = Session.__new__(Session), self._branch
        forked = Branch(branch.program, branch.template, in_order(commands), branch.family, branch.jax_settings)
        SessionView.__init__(other, forked, self._thread)
        return other

    def compare(self, other: Session) -> Comparison:
        """Up to where another session's run is the same, and the first difference."""
        return compare(self, other)

    def close(self) -> None:
        """End the run, and give back what it holds; faults that never fired are a warning. `rewind` begins another run."""
        self._require_outside("close")
        if self.state != "closed":
            self._live().close()


def _checked(program: Program, cluster: Cluster, commands: Iterable[Command] | None) -> list[Command]:
    """The commands of a session whose arguments make sense."""
    if not takes(program, cluster):
        raise TypeError(f"program is {program!r}; expected a function of a cluster: def program(cluster)")
    if not isinstance(cast("object", cluster), Cluster):
        raise TypeError(f"cluster is {cluster!r}; expected a Cluster, of which each run gets a fresh one")
    require_no_faults(cluster)
    return commands_of([] if commands is None else commands, "commands")
