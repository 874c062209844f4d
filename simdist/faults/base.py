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
from dataclasses import Field, dataclass, field
from typing import Any, ClassVar, Self, cast

from simdist.errors import InvalidArgumentError
from simdist.faults.effects import Effects, Heal
from simdist.faults.parameters import Parameter, parameters_of
from simdist.faults.triggers import Trigger

__all__ = ["KINDS", "Effects", "Fault", "Heal"]

KINDS: dict[str, type[Fault]] = {}
"""All kinds of faults, by the names that plans write."""


@dataclass(eq=False)
class Fault(ABC):
    """One planned failure.

    Args:
        trigger: when it begins.

    Attributes:
        kind: its name in plans and in the trace.
        silences: whether it makes a task silent, so that others wait for its heal or for a time-out. Where a kind says so, tasks send
            heartbeats from its planning on; where it does not, from the moment at which it lays an effect that silences.
        disturbs: whether messages take another time because of it.
        may_end_waits: whether it may end a wait that nothing else can end; False where it only changes how long work takes that is under
            way. Such a wait goes on to the virtual second of a planned fault.
        planned: whether a plan has it.
        fired_s: when it began; None: it has not.
        healed_s: when its effect was taken away; None: it was not.
        is_missed: whether its moment has passed, or can never be known.
    """

    kind: ClassVar[str] = ""
    silences: ClassVar[bool] = False
    disturbs: ClassVar[bool] = False
    may_end_waits: ClassVar[bool] = True
    trigger: Trigger = field(kw_only=True)
    planned: bool = field(default=False, init=False)
    fired_s: float | None = field(default=None, init=False)
    healed_s: float | None = field(default=None, init=False)
    is_missed: bool = field(default=False, init=False)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """As of any class, if it has all its fields.

        Raises:
            InvalidArgumentError: it is no dataclass, so that what it declares itself, or has from one of several bases, is no field of it.
        """
        inherited = {name for base in cls.__mro__ for name in base.__dict__.get("__dataclass_fields__", ())}
        if not inherited <= set(cls.__dataclass_fields__) or any(isinstance(value, Field) for value in cls.__dict__.values()):
            raise InvalidArgumentError(f"{cls.__name__} has parameters and is no dataclass. Write @dataclass(eq=False) above its class.")
        return super().__new__(cls)

    def __init_subclass__(cls, kind: str = "") -> None:
        """Enter a class that gives its name into `KINDS`; one without is a base of other kinds.

        Raises:
            InvalidArgumentError: another class has this name.
            TypeError: it is no text.
        """
        super().__init_subclass__()
        if not isinstance(cast("object", kind), str):
            raise TypeError(f"kind={kind!r} of {cls.__name__} must be text, such as 'slow'.")
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
        if self.trigger.after_steps is not None and not self.tasks:
            raise InvalidArgumentError(
                f"after_steps={self.trigger.after_steps} counts the steps of the first task of a fault, and {self.kind} has none. Give it "
                f"at= or when=, or let {type(self).__name__}.tasks name one."
            )

    def describe(self) -> str:
        """Its kind, whom it hits and when, in a line."""
        return f"{self.kind}({', '.join(map(repr, self.tasks))}, {self.trigger.describe()})"
