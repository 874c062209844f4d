"""What a fault is, and what an engine must be able to suffer.

A fault never assigns. It lays an effect over a task or over the way between two tasks, and gets back what takes exactly
that effect away again: where several overlap, the end of one is not the end of another. All that a fault may touch is one
object, `Effects`, which engines implement; this package knows no engine.

To add a kind: one class with a name, whose fields are its parameters, and two tests.

    @dataclass(eq=False)
    class Pause(TaskFault, LastingFault, kind="pause"):
        def lay(self, effects: Effects) -> Heal:
            return effects.pause(self.task)

Invariants: a fault is plain data, but for the predicate of its trigger; it begins once, and heals at most once.

Taught in lesson 01.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from simdist.errors import InvalidArgumentError
from simdist.faults.triggers import Trigger

__all__ = ["KINDS", "Effects", "Fault", "Heal"]

Heal = Callable[[], None]
"""Takes one effect away again, and no other."""


class Effects(Protocol):
    """All that faults may touch of a running cluster. Tasks are named as the cluster names them: ``chief:0``.

    Attributes:
        step_ended: listeners, which are told the name of each task whose steps, or of a server updates, have become one more.
    """

    step_ended: list[Callable[[str], None]]

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

    def crash(self, task: str, restart_after_s: float | None, reason: str) -> None:
        """End a task's process, in the trace too; it starts again after some seconds, or never."""
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

    def note(self, category: str, task: str, text: str, **facts: Any) -> None:
        """Record an instant at a task's lane."""
        ...

    def later(self, delay_s: float, function: Callable[[], None], awaited: bool = False) -> None:
        """Call a function after a delay. Only where it is `awaited` a wait may count on it; otherwise it keeps no run alive."""
        ...

    def expect_silence(self) -> None:
        """From now on a task may fall silent, or a message be lost, and nobody says so: what would wait for ever gets a time-out."""
        ...

    def ask(self, predicate: Callable[[Any], Any]) -> bool:
        """What a predicate of the cluster says, which may look but not wait."""
        ...

    def tell_driver(self, error: BaseException) -> None:
        """Raise an error in the program that drives the cluster."""
        ...


KINDS: dict[str, type[Fault]] = {}
"""All kinds of faults, by the names that plans write."""


@dataclass(eq=False)
class Fault(ABC):
    """One planned failure.

    Args:
        trigger: when it begins.

    Attributes:
        kind: its name in plans and in the trace.
        silences: whether it makes somebody silent, so that others wait for its heal or for a time-out.
        planned: whether a cluster has it in its plan.
        fired: whether it has begun.
        healed: whether its effect has been taken away.
    """

    kind: ClassVar[str] = ""
    silences: ClassVar[bool] = False
    trigger: Trigger = field(kw_only=True)
    planned: bool = field(default=False, init=False)
    fired: bool = field(default=False, init=False)
    healed: bool = field(default=False, init=False)

    def __init_subclass__(cls, kind: str = "") -> None:
        """Enter a class that gives its name into `KINDS`; one without is a base of other kinds.

        Raises:
            InvalidArgumentError: another class has this name.
        """
        super().__init_subclass__()
        cls.kind = kind
        if kind:
            other = KINDS.setdefault(kind, cls)
            # The same class once more (a cell of a notebook that ran again) takes the place of the one before.
            if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
                raise InvalidArgumentError(
                    f"There is a kind of fault {kind!r} already, {other.__qualname__}. Give {cls.__qualname__} another name."
                )
            KINDS[kind] = cls

    @property
    @abstractmethod
    def tasks(self) -> tuple[str, ...]:
        """Whom it hits. The steps of the first one are those of ``after_steps=``."""

    @abstractmethod
    def begin(self, effects: Effects) -> Heal | None:
        """Lay the effect.

        Returns:
            What takes it away again; None if nothing does.
        """

    @property
    def ends_s(self) -> float | None:
        """The virtual second at which it heals; None: never."""
        return None

    def check(self, effects: Effects) -> None:
        """Refuse what makes no sense in this cluster, and make names of tasks whole.

        Raises:
            InvalidArgumentError: it makes no sense.
        """
        self.trigger.check(self.kind, effects.now)

    def describe(self) -> str:
        """Its kind, whom it hits and when, in a line."""
        return f"{self.kind}({', '.join(map(repr, self.tasks))}, {self.trigger.describe()})"
