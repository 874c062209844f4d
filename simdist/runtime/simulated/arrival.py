"""The arrival of a replica at a collective: what it came for and when, and in the end its result or an error.

Taught in lesson 03a.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from simdist.program.collective import Collective
from simdist.program.values import Bundle

__all__ = ["Arrival", "ArrivedAt"]


class ArrivedAt(Protocol):
    """The collective at which a replica arrives (`simdist.runtime.simulated.pending_collective.PendingCollective`).

    Attributes:
        collective: what it is for.
        name: in the trace.
        begun_s: when its bytes began to travel.
        cause: the number of the last record of the replica that came last.
        recorded: the number of the last record of this collective, in a list that those behind it keep.
        behind: that of the collective for which its bytes had to wait; None where they had not.
    """

    collective: Collective
    name: str
    begun_s: float
    cause: int
    recorded: list[int]
    behind: list[int] | None

    def awaited(self) -> str: ...
    def kinds(self, device: str, /) -> tuple[int, int]: ...


class Arrival:
    """The arrival of one replica at a collective, and its result.

    Attributes:
        pending_collective: at which it arrived.
        collective: what it came for.
        device: where the trace shows it.
        began_s: when it came.
        is_early: whether it came while its device still computed: no operation waits for it then.
        over: whether it has what it gets (`result`), or never will (`error`).
    """

    __slots__ = ("began_s", "collective", "device", "ended", "error", "is_early", "over", "pending_collective", "result")

    def __init__(self, pending_collective: ArrivedAt, collective: Collective, device: str, began_s: float, is_early: bool) -> None:
        self.pending_collective = pending_collective
        self.collective = collective
        self.device = device
        self.began_s = began_s
        self.is_early = is_early
        self.over = False
        self.result: Bundle | None = None
        self.error: BaseException | None = None
        self.ended: Callable[[Arrival], None] | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes that it contributes; of a sparse all-reduce those that travel."""
        carried_out = self.pending_collective.collective
        return self.collective.size_bytes if carried_out.kind == "all_gather" else carried_out.size_bytes

    def then(self, ended: Callable[[Arrival], None]) -> None:
        """Call a function, once, when it is over."""
        self.ended = ended

    def end(self, result: Bundle | None, error: BaseException | None) -> None:
        """End it with a result or an error."""
        if not self.over:
            self.over, self.result, self.error = True, result, error
            if self.ended is not None:
                self.ended(self)
