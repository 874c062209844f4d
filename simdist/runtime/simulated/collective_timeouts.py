"""How long a collective waits, for replicas that do not come and for bytes that are lost, and the errors with which it gives up.

With a time-out of its own, or of its strategy, it gives up when that is over and a replica has not arrived. Where a task or its bytes may
be missing without an error, because of a fault of the plan, it waits that long as well, or `COLLECTIVE_TIMEOUT_S`.

Where the main of a replica that has not come starts again meanwhile, or is to, as others did after a crash, each of these begins when it
does: how long mains wait to start again is not up to them, and they begin from the beginning.

The error of a time-out of one's own is a `DeadlineExceededError`, as in TensorFlow. Where a fault may be why, its cause says so, and a
launched main starts again after it with ``restart="always"``; else another attempt would mend nothing.

Taught in lesson 03a.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from simdist.errors import DeadlineExceededError, TimedOutError, UnavailableError
from simdist.program.collective import Collective
from simdist.runtime.simulated.transfers import Transfers
from simdist.simulation.kernel import Clock

__all__ = ["COLLECTIVE_TIMEOUT_S", "CollectiveTimeouts", "HeldUpError"]

COLLECTIVE_TIMEOUT_S = 30.0
"""How long a collective without a time-out of its own waits where a task may be silent."""


class HeldUpError(UnavailableError):
    """Why a time-out of one's own was over: a fault, after which another attempt may succeed."""


class Awaited(Protocol):
    """The collective that is waited for.

    Attributes:
        ranks: of those that take part; none before all have arrived.
        transfers: of its bytes.
    """

    collective: Collective
    ranks: list[int]
    transfers: Transfers | None

    def missing(self) -> list[str]: ...
    def down(self) -> list[str]: ...
    def start_again_s(self) -> float: ...
    def not_again(self) -> list[str]: ...
    def fail(self, error: BaseException, /) -> None: ...


class CollectiveTimeouts:
    """The time-outs of one collective.

    Args:
        awaited: the collective, which begins now.
        clock: of the engine.
        timeout_s: its time-out; None: it has none.

    Attributes:
        gives_up_s: when it looks next, or has looked last, for who or what was lost without an error; 0: it has not to.
    """

    __slots__ = ("_began_s", "_clock", "_timeout_s", "_watch", "gives_up_s")

    def __init__(self, awaited: Awaited, clock: Clock, timeout_s: float | None) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._began_s = clock.now
        self.gives_up_s = 0.0
        self._watch: list[Awaited] = []  # what a time-out finds; empty when it is over, so that nothing is kept until then
        if timeout_s is not None:
            self._watch.append(awaited)
            clock.after(timeout_s, _expired, (self, self._watch, timeout_s))

    @property
    def is_asked_for(self) -> bool:
        """Whether it has a time-out of its own."""
        return self._timeout_s is not None

    def expect_silence(self, awaited: Awaited) -> None:
        """A replica or a message may be missing without an error: give up after a time-out; after one more where one is over."""
        now = self._clock.now
        if now < self.gives_up_s:
            return
        if not self._watch:
            self._watch.append(awaited)
        patience_s = self._timeout_s or COLLECTIVE_TIMEOUT_S
        due_s = self._began_s + patience_s
        self.gives_up_s = due_s if due_s > now else now + patience_s
        self._clock.after(self.gives_up_s - now, _timed_out, (self, self._watch, patience_s))

    def begin_anew(self, awaited: Awaited, timeout_s: float, expired: Callable[[Watched], None]) -> bool:
        """Let the time-out begin when the main of a missing replica starts again; return whether it is not over yet then."""
        due_s, now = awaited.start_again_s() + timeout_s, self._clock.now
        if awaited.ranks or due_s <= now:
            return False
        if expired is _timed_out:
            self.gives_up_s = due_s
        self._clock.after(due_s - now, expired, (self, self._watch, timeout_s))
        return True

    def end(self) -> None:
        """The collective is over."""
        self._watch.clear()


Watched = tuple[CollectiveTimeouts, list[Awaited], float]


def _expired(watched: Watched) -> None:
    """The time-out is over; the replicas that have arrived give up, unless all have."""
    timeouts, watch, timeout_s = watched
    for awaited in list(watch):
        if awaited.ranks or timeouts.begin_anew(awaited, timeout_s, _expired):
            continue
        missing, down = awaited.missing(), awaited.down()
        why = f", and {', '.join(down)} {'is' if len(down) == 1 else 'are'} down" if down else ""
        error = DeadlineExceededError(
            f"{awaited.collective} was given up after {timeout_s:g} s: {', '.join(missing)} did not come{why}. Look at what "
            f"{'it does' if len(missing) == 1 else 'they do'} instead, or raise timeout_seconds."
        )
        late = awaited.not_again()
        if down or timeouts.gives_up_s:
            error.__cause__ = HeldUpError(
                f"{', '.join(down or missing)} {'is' if down else 'may be'} down or silent, as faults are planned"
            )
        elif late:
            error.__cause__ = HeldUpError(f"the main of {', '.join(late)} has not started again yet, as that of another worker has")
        awaited.fail(error)


def _timed_out(watched: Watched) -> None:
    """The time-out for all arrivals and all bytes is over."""
    timeouts, watch, patience_s = watched
    for awaited in list(watch):
        if timeouts.begin_anew(awaited, patience_s, _timed_out):
            continue
        transfers = awaited.transfers
        paused = [] if transfers is None else transfers.paused
        if not awaited.ranks or paused or (transfers is not None and transfers.has_lost):
            awaited.fail(_given_up(awaited, paused, patience_s, timeouts.is_asked_for))


def _given_up(awaited: Awaited, paused: list[str], patience_s: float, is_asked_for: bool) -> TimedOutError:
    missing, what = awaited.missing() or paused, "bytes were lost on the way"
    if missing:
        what = f"{', '.join(missing)} did not {'go on' if paused else 'come'}, and nobody said why"
    return TimedOutError(
        f"{awaited.collective} was given up after {patience_s:g} s: {what}. Look at the pauses, partitions and lost "
        "hosts of the fault plan (give lose_host a restart_after=); launch the mains with restart='always' to start again, or "
        f"{'raise' if is_asked_for else 'set'} timeout_seconds."
    )
