"""What can be seen of a session: where its run stands, what it has said and done, how fast it comes on.

To see it lets no virtual time pass. A run that is not kept is done again first where more is asked for than is known of it.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any

from simdist.driving_thread import driving_thread
from simdist.errors import FailedPreconditionError
from simdist.faults.base import Fault
from simdist.runtime.cluster import Cluster
from simdist.session.branch import Branch, RunAside
from simdist.session.commands import Command
from simdist.session.goals import Moment
from simdist.session.run import Program, ProgramRun
from simdist.simulation.fiber import current_fiber
from simdist.trace import Trace

__all__ = ["SessionView"]


class SessionView:
    """The side of a session that is read.

    Args:
        branch: its program, its commands, and its run.
        thread: the one that made the session.
    """

    def __init__(self, branch: Branch, thread: int) -> None:
        self._branch = branch
        self._thread = thread

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
