"""What faults may touch of a running cluster: the protocol that engines implement.

Taught in lesson 01.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Effects", "Heal"]

Heal = Callable[[], None]
"""Takes one effect away again, and no other."""


class Effects(Protocol):
    """All that faults may touch of a running cluster. Tasks are named as the cluster names them: ``chief:0``.

    Attributes:
        step_ended: listeners, called with the name of each task whose steps, or of a server updates, have become one more.
        silences: how many effects were laid that may make a task silent.
    """

    step_ended: list[Callable[[str], None]]
    silences: int

    @property
    def now(self) -> float:
        """Virtual seconds."""
        ...

    def require_task(self, name: str) -> str:
        """The name of a task; `InvalidArgumentError` where there is none."""
        ...

    def require_open(self, what: str) -> None:
        """Refuse to go on with a cluster that is closed; `what` was tried."""
        ...

    def progress(self, task: str) -> int:
        """How many steps a task has taken; of a parameter server, how many updates it has applied."""
        ...

    def crash(self, task: str, restart_after_s: float | None, reason: str, keep_disk: bool) -> None:
        """End a task's process, in the trace too; it starts again after some seconds, or never. Its disk stays, or is lost."""
        ...

    def lose_host(self, task: str, restart_after_s: float | None, reason: str) -> None:
        """End a task's process and lose its disk, but its machine says nothing: no connection is reset."""
        ...

    def preempt(self, task: str, notice_s: float, restart_after_s: float | None, reason: str) -> None:
        """Give a task notice, in the trace too, that it crashes in some seconds and loses its disk; unless its machine is gone before."""
        ...

    def fill_disk(self, task: str) -> Heal:
        """Let a task's disk have no room."""
        ...

    def slow_disk(self, task: str, factor: float) -> Heal:
        """Multiply the time of all that a task's disk does."""
        ...

    def tear_writes(self, task: str, writes: int) -> None:
        """Let so many more of the next writes of a task's disk keep only a prefix."""
        ...

    def slow(self, task: str, factor: float) -> Heal:
        """Multiply the time of all that a task computes."""
        ...

    def pause(self, task: str) -> Heal:
        """Stop a task's process, which stays alive and says nothing."""
        ...

    def cut(self, source: str, target: str) -> Heal:
        """Lose the messages of one direction."""
        ...

    def drop(self, source: str, target: str, kinds: frozenset[str], probability: float) -> Heal:
        """Lose messages of one direction, each with this probability."""
        ...

    def delay(self, source: str, target: str, kinds: frozenset[str], probability: float, delay_s: float, spread_s: float) -> Heal:
        """Let messages of one direction, each with this probability, come later: by `delay_s`, and up to `spread_s` more."""
        ...

    def duplicate(self, source: str, target: str, kinds: frozenset[str], probability: float) -> Heal:
        """Let messages of one direction, each with this probability, set out once more."""
        ...

    def slow_link(self, source: str, target: str, bandwidth_factor: float, latency_factor: float) -> Heal:
        """Divide the bandwidth of one direction by a factor, and multiply its latency."""
        ...

    def note(self, category: str, task: str, text: str, **facts: Any) -> None:
        """Record an instant at a task's lane."""
        ...

    def at(self, second: float, function: Callable[[], None], awaited: bool = False) -> None:
        """Call a function exactly at a second. Only where it is `awaited` a wait may count on it; otherwise it keeps no run alive."""
        ...

    def expect_silence(self) -> None:
        """From now on a task may fall silent, or a message be lost, and nobody says so: what would wait for ever gets a time-out."""
        ...

    def silent_until(self, second: float) -> None:
        """A silence has begun, and will end at this second: who is patient with a task that does not answer is so until then."""
        ...

    def disturb(self) -> None:
        """From now on messages may be lost, or take another time than they did: nothing about them may be worked out beforehand."""
        ...

    def is_over(self, task: str | None) -> bool:
        """Whether a task takes no steps any more: it is gone for good, or the cluster is closed; None: whether it is closed."""
        ...

    def ask(self, predicate: Callable[[Any], Any]) -> bool:
        """What a predicate of the cluster says, which may look but not wait."""
        ...

    def tell_driver(self, error: BaseException) -> None:
        """Raise an error in the program that drives the cluster."""
        ...
