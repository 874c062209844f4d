"""Parameters of faults: what each takes, in which unit and within which bounds, declared once.

A declaration stands in the metadata of a dataclass field, and serves the check of what was given, the text of
plans, the table of kinds, an input field.

    factor: float = field(metadata=number("on the time of everything that begins meanwhile", at_least=1.0))
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar

from simdist.arguments import END_S, flag, float_of, known_word
from simdist.errors import InvalidArgumentError
from simdist.faults.effects import Effects

__all__ = ["Number", "Parameter", "choice", "number", "parameters_of", "seconds", "switch", "task", "tasks", "whole_number"]

Metadata = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Parameter(ABC):
    """What a parameter takes.

    Args:
        says: what it means, in a few words.
        optional: whether it may be None.
        called: its name in the methods of a plan, where that is another.

    Attributes:
        type: what it is, in a word.
        unit: of its numbers; empty where they have none.
    """

    type: ClassVar[str] = ""
    says: str
    unit: str = ""
    optional: bool = False
    called: str = ""

    def checked(self, name: str, value: Any, effects: Effects | None) -> Any:
        """The value in its usual form.

        Args:
            name: of the parameter.
            value: what was given.
            effects: the cluster that it is for; None: of no cluster yet.

        Raises:
            InvalidArgumentError: it is not of this type, or out of bounds.
            TypeError: it is neither True nor False, where it should be.
        """
        if value is None and self.optional:
            return None
        return self._checked(self.called or name, value, effects)

    @abstractmethod
    def _checked(self, name: str, value: Any, effects: Effects | None) -> Any: ...

    @property
    @abstractmethod
    def bounds(self) -> str:
        """What it may be, in words."""


@dataclass(frozen=True, kw_only=True)
class Number(Parameter):
    """A finite number; with `whole` an integer."""

    type: ClassVar[str] = "number"
    at_least: float = -math.inf
    above: float = -math.inf
    at_most: float = math.inf
    below: float = math.inf
    whole: bool = False

    def _checked(self, name: str, value: Any, effects: Effects | None) -> Any:
        given: Any = value
        is_number = isinstance(value, Integral if self.whole else Real) and value is not True and value is not False
        if not is_number or not self._holds(float_of(given)):
            or_none = ", or None" if self.optional and "None" not in self.says else ""
            raise InvalidArgumentError(f"{name}={value!r} must be {self.bounds}: {self.says}{or_none}.")
        return int(given) if self.whole else float(given)

    def _holds(self, value: float) -> bool:
        return math.isfinite(value) and self.at_least <= value <= self.at_most and self.above < value < self.below

    @property
    def bounds(self) -> str:
        limits = [f"{self.at_least:g} or more"] if self.at_least > -math.inf else []
        limits += [f"more than {self.above:g}"] if self.above > -math.inf else []
        limits += [f"at most {self.at_most:g}"] if self.at_most < math.inf else []
        limits += [f"less than {self.below:g}"] if self.below < math.inf else ["finite"] if self.at_most == math.inf else []
        unit = f" {self.unit}" if self.unit else ""
        return ("a whole number, " if self.whole else "") + ", and ".join(limits) + unit


@dataclass(frozen=True, kw_only=True)
class Switch(Parameter):
    """True or False."""

    type: ClassVar[str] = "switch"

    def _checked(self, name: str, value: Any, effects: Effects | None) -> bool:
        return flag(value, name)

    @property
    def bounds(self) -> str:
        return "True or False"


@dataclass(frozen=True, kw_only=True)
class Choice(Parameter):
    """One of some words."""

    type: ClassVar[str] = "choice"
    choices: tuple[str, ...] = ()

    def _checked(self, name: str, value: Any, effects: Effects | None) -> str:
        return known_word(value, name, self.choices)

    @property
    def bounds(self) -> str:
        return "one of " + ", ".join(self.choices)


SINGLE_JOBS = ("chief", "evaluator")  # those of one task


@dataclass(frozen=True, kw_only=True)
class TaskName(Parameter):
    """The name of a task; "chief" is short for "chief:0", and "evaluator" for "evaluator:0"."""

    type: ClassVar[str] = "task"

    def _checked(self, name: str, value: Any, effects: Effects | None) -> str:
        if not isinstance(value, str):
            raise InvalidArgumentError(f"{name}={value!r} is no name of a task. Give text, such as 'worker:1'.")
        whole = f"{value}:0" if value in SINGLE_JOBS else value
        return whole if effects is None else effects.require_task(whole)

    @property
    def bounds(self) -> str:
        return "a task, such as worker:1"


@dataclass(frozen=True, kw_only=True)
class TaskNames(Parameter):
    """The name of a task, or a list of names; each counts once."""

    type: ClassVar[str] = "tasks"

    def _checked(self, name: str, value: Any, effects: Effects | None) -> tuple[str, ...]:
        if not isinstance(value, (str, list, tuple)) or not value:
            raise InvalidArgumentError(
                f"{name}={value!r} must be the name of a task, or a list of at least one name, such as ['worker:1', 'ps:0']."
            )
        names: Sequence[Any] = (value,) if isinstance(value, str) else value
        one = TaskName(says=self.says)
        return tuple(dict.fromkeys(one.checked(name, each, effects) for each in names))

    @property
    def bounds(self) -> str:
        return "a task, or a list of tasks"


def number(says: str, **bounds: Any) -> Metadata:
    """Declare a number; bounds: `at_least`, `above`, `at_most`, `below`, and a `unit`."""
    return {"parameter": Number(says=says, **bounds)}


def whole_number(says: str, **bounds: Any) -> Metadata:
    """Declare a whole number; as `number`."""
    return {"parameter": Number(says=says, whole=True, **bounds)}


def seconds(says: str, optional: bool = False) -> Metadata:
    """Declare a number of virtual seconds, none of them beyond the end of the clock."""
    return {"parameter": Number(says=says, unit="s", at_least=0.0, below=END_S, optional=optional)}


def switch(says: str) -> Metadata:
    """Declare a yes or no."""
    return {"parameter": Switch(says=says)}


def choice(says: str, choices: Sequence[str], optional: bool = False, called: str = "") -> Metadata:
    """Declare one of some words."""
    return {"parameter": Choice(says=says, choices=tuple(choices), optional=optional, called=called)}


def task(says: str) -> Metadata:
    """Declare the name of a task."""
    return {"parameter": TaskName(says=says)}


def tasks(says: str) -> Metadata:
    """Declare the name of a task, or a list of names."""
    return {"parameter": TaskNames(says=says)}


OF_PLANS = ("kind", "at", "after_steps", "when")


def parameters_of(kind: type[Any]) -> dict[str, Parameter]:
    """The declarations of a class of faults, by name.

    Raises:
        InvalidArgumentError: a parameter has none, or has a name that plans use otherwise.

    Example:
        >>> from simdist.faults.process import Slow
        >>> {name: (each.type, each.bounds) for name, each in parameters_of(Slow).items()}["factor"]
        ('number', 'more than 0, and finite')
    """
    found: dict[str, Parameter] = {}
    for item in fields(kind):
        if item.init and item.name != "trigger":
            if "parameter" not in item.metadata:
                raise InvalidArgumentError(
                    f"The parameter {item.name!r} of {kind.__name__} is not declared. Write {item.name}: ... = field(metadata=number("
                    "'what it means', unit='s', at_least=0.0)), or another of simdist.faults.parameters."
                )
            if item.name in OF_PLANS:
                raise InvalidArgumentError(
                    f"The parameter {item.name!r} of {kind.__name__} has a name that is another thing in a plan. Call it otherwise."
                )
            found[item.name] = item.metadata["parameter"]
    return found
