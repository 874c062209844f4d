"""What the servers do for the workers of one coordinator, and what a closure tells them about itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from simdist.errors import UnavailableError
from simdist.program.values import Bundle
from simdist.runtime.linked import Apply
from simdist.runtime.serving import Serving, Ticket
from simdist.runtime.simulated.calls import REPEAT_FOR_S, ServerCall
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.remembered import Remembered
from simdist.runtime.simulated.rounds import Committer, RoundServer
from simdist.runtime.simulated.server_recovery import ServerRecovery
from simdist.runtime.simulated.task import Task
from simdist.runtime.work import Drawn

__all__ = ["Errand", "Served"]


class Errand(Protocol):
    """A closure, as far as the messages of its steps are concerned.

    Attributes:
        number: of the closure.
        ordinal: its number among those that its worker was sent.
        step: that runs now, from 1 on.
        ticket: of this attempt to run it.
        served: its coordinator's servers.
        rounds: their rounds, by name; None where workers do not proceed in rounds.
    """

    number: int
    ordinal: int
    step: int
    ticket: Ticket

    @property
    def served(self) -> Served: ...
    @property
    def rounds(self) -> dict[str, RoundServer] | None: ...
    def draw(self) -> Drawn:
        """What the random numbers of the step that runs now follow from: in a closure that is run again, what they followed from first."""
        ...

    def keep(self, update: Apply, priced: PricedProgram, operands: Bundle) -> None:
        """Add an update of the chief's variables: it travels with the reply, and counts only if the closure completes."""
        ...

    @property
    def has_changes(self) -> bool:
        """Whether there are updates of the chief's variables."""
        ...

    def seen(self, group: int, present: Bundle) -> Bundle:
        """A group as the closure sees it, which has perhaps changed it."""
        ...


class Server(Committer, Protocol):
    """The server loop."""

    recovery: ServerRecovery | None
    remembered: Remembered


class Served:
    """The servers of one coordinator.

    Args:
        servers: all of a cluster, by task.
        serving: what those of this coordinator promise.
        number: of the coordinator, among those of the cluster.
        silent_until_s: gives the second at which the last pause or partition ends whose end is known; it may be over.

    Attributes:
        rounds: of each server, by name; of none where workers do not proceed in rounds.
        knows_closures: whether servers know updates by their closures; in rounds they ask for the attempt.
    """

    def __init__(self, servers: Mapping[str, Server], serving: Serving, number: int, silent_until_s: Callable[[], float]) -> None:
        self.serving = serving
        self._silent_until_s = silent_until_s
        self.number = number
        self.servers = [servers[name] for name in serving.servers]
        self.knows_closures = serving.exactly_once and not serving.in_rounds
        self.rounds: dict[str, RoundServer] = {}
        if serving.in_rounds:
            self.rounds = {name: RoundServer(servers[name]) for name in serving.servers}

    def is_away(self) -> bool:
        """Whether a server is down, or being restored, that will be back."""
        if self.serving.recovery == "raise":
            return False
        recoveries = [server.recovery for server in self.servers if server.recovery is not None]
        return any(not recovery.is_serving and not recovery.is_lost for recovery in recoveries)

    def comes_back(self, parts: Iterable[ServerCall]) -> bool:
        """Whether a call with these parts may be repeated: what it reads or changes is not lost."""
        if self.serving.recovery == "raise":
            return False
        return not self._lost(parts)

    def repeats_after_s(self, tasks: Iterable[Task], began_s: float, now: float, pause_s: float) -> float | None:
        """Seconds until a call is repeated that was not answered; None: never.

        Args:
            tasks: the servers that are called.
            began_s: when they were called first; the time before one of them was started again, or a silence has ended, does not count.
            now: the present second.
            pause_s: between two calls of servers that may be there.
        """
        waits_since_s = max([began_s, self._silent_until_s(), *[task.process.began_s for task in tasks]])
        if now - waits_since_s <= REPEAT_FOR_S or self.is_restoring(tasks):
            return pause_s
        plans = [] if self.serving.recovery == "raise" else [task.restart_plan for task in tasks if not task.alive]
        back_s = [plan.at_s for plan in plans if plan is not None]
        # At most as long again as it has waited: a later fault may let the server start earlier.
        return min(max(back_s) - now + pause_s, now - waits_since_s) if back_s else None

    def is_restoring(self, tasks: Iterable[Task]) -> bool:
        """Whether one of these servers is up, and gets back what it held."""
        away = [recovery for server in self.servers if (recovery := server.recovery) is not None and not recovery.is_serving]
        return any(recovery.task.alive and recovery.task in tasks for recovery in away)

    def explained(self, error: BaseException, parts: Iterable[ServerCall]) -> BaseException:
        """The error of a call with these parts, which says why a server cannot come back with what it held."""
        lost = [] if self.serving.recovery == "raise" or type(error) is not UnavailableError else self._lost(parts)
        if not lost:
            return error
        text = str(error)
        named = next((recovery for recovery in lost if text.startswith(f"{recovery.task.name} ")), lost[0])
        return UnavailableError(f"{text} {named.reason or named.why_lost()}")

    def _lost(self, parts: Iterable[ServerCall]) -> list[ServerRecovery]:
        """The servers that cannot answer their parts any more."""
        recoveries = {server.task.name: server.recovery for server in self.servers}
        asked = [(recoveries.get(part.there.target.name), part.touched) for part in parts]
        return [recovery for recovery, groups in asked if recovery is not None and recovery.has_lost(groups)]
