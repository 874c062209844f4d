"""What a fault is, and what an engine must be able to suffer.

A fault never assigns. It lays an effect over a task or over the way between two tasks, and gets back what takes exactly
that effect away again: where several overlap, the end of one is not the end of another. All that a fault may touch is one
object, `Effects`, which engines implement; this package knows no engine.

To add a kind: one class with a name, whose fields are its parameters, each with its declaration, and two tests.

    @dataclass(eq=False)
    class Slow(TaskFault, LastingFault, kind="slow"):
        factor: float = field(metadata=number("on the time of everything that begins meanwhile", above=0.0))

        def lay(self, effects: Effects) -> Heal:
            return effects.slow(self.task, self.factor)

Invariants: a fault is plain data, but for the predicate of its trigger; it begins once, and heals at most once.

Taught in lesson 01.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from simdist.errors import InvalidArgumentError
from simdist.faults.parameters import Parameter, parameters_of
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

    def lose_host(self, task: str, restart_after_s: float | None, reason: str) -> None:
        """End a task's process as `crash` does, but its machine says nothing: no connection is reset."""
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

    def later(self, delay_s: float, function: Callable[[], None], awaited: bool = False) -> None:
        """Call a function after a delay. Only where it is `awaited` a wait may count on it; otherwise it keeps no run alive."""
        ...

    def expect_silence(self) -> None:
        """From now on a task may fall silent, or a message be lost, and nobody says so: what would wait for ever gets a time-out."""
        ...

    def expect_disturbance(self) -> None:
        """From now on messages may take another time than they do now: nothing about them may be worked out beforehand."""
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
        disturbs: whether messages take another time because of it.
        planned: whether a plan has it.
        fired_s: when it began; None: it has not.
        healed_s: when its effect was taken away; None: it was not.
        is_missed: whether its moment has passed, or can never be known.
    """

    kind: ClassVar[str] = ""
    silences: ClassVar[bool] = False
    disturbs: ClassVar[bool] = False
    trigger: Trigger = field(kw_only=True)
    planned: bool = field(default=False, init=False)
    fired_s: float | None = field(default=None, init=False)
    healed_s: float | None = field(default=None, init=False)
    is_missed: bool = field(default=False, init=False)

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
    def fired(self) -> bool:
        """Whether it has begun."""
        return self.fired_s is not None

    @property
    def healed(self) -> bool:
        """Whether its effect has been taken away."""
        return self.healed_s is not None

    @classmethod
    def parameters(cls) -> dict[str, Parameter]:
        """What its parameters take, by name."""
        return parameters_of(cls)

    @property
    def figures(self) -> dict[str, Any]:
        """The values of its parameters, by name."""
        return {name: getattr(self, name) for name in self.parameters()}

    @property
    def ends_s(self) -> float | None:
        """The virtual second at which it heals; None: never."""
        return None

    def check(self, effects: Effects | None = None) -> None:
        """Refuse what makes no sense, and bring figures into their usual form: names of tasks whole.

        Args:
            effects: the cluster that it is for; None: of no cluster yet.

        Raises:
            InvalidArgumentError: it makes no sense.
        """
        self.trigger.check(self.kind, 0.0 if effects is None else effects.now)
        for name, parameter in self.parameters().items():
            setattr(self, name, parameter.checked(name, getattr(self, name), effects))

    def describe(self) -> str:
        """Its kind, whom it hits and when, in a line."""
        return f"{self.kind}({', '.join(map(repr, self.tasks))}, {self.trigger.describe()})"
