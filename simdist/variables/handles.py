"""From a program's handle, or from a variable of Keras, to our variable."""

from __future__ import annotations

from typing import NoReturn, Protocol, runtime_checkable

from simdist.program.arrays import ArrayLike
from simdist.program.operations import VariableHandle, cannot_be_copied
from simdist.variables.keras_objects import KerasOptimizer, KerasVariable, core_of
from simdist.variables.variable import Variable

__all__ = ["Adopted", "AnyVariable", "Assignable", "adopted", "has_variable", "own_variable", "shown_name", "variable_of"]

AnyVariable = Variable | KerasVariable
"""A variable of ours, or one of Keras that a strategy may have adopted."""


def variable_of(handle: VariableHandle) -> Variable:
    """The variable that a program knows as a handle."""
    assert isinstance(handle, Variable)
    return handle


@runtime_checkable
class _Pathed(Protocol):
    """A variable of Keras, as far as errors are concerned."""

    @property
    def path(self) -> str: ...


@runtime_checkable
class Assignable(Protocol):
    """A variable, of whatever library."""

    def assign(self, value: ArrayLike, /) -> object: ...


class Adopted:
    """What a strategy has adopted: its value is that of `simdist_variable`, once it has one."""

    simdist_variable: Variable | None = None

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied.

        Raises:
            TypeError: always.
        """
        raise cannot_be_copied(str(shown_name(self)))


def adopted(variable: object) -> Variable | None:
    """The variable that has the value of one of Keras; None of anything that no strategy has adopted."""
    return variable.simdist_variable if isinstance(variable, Adopted) else None


def own_variable(value: object) -> Variable | None:
    """A variable of ours itself, and the one behind an adopted one; None of anything else."""
    return value if isinstance(value, Variable) else adopted(value)


def has_variable(optimizer: KerasOptimizer, variable: VariableHandle) -> bool:
    """Whether a variable is one in which a Keras optimizer keeps its state, its learning rate or its count."""
    return any(adopted(own) is variable for part in (optimizer, core_of(optimizer)) for own in part.variables)


def shown_name(variable: object) -> object:
    """How errors call a variable: ours by its name, one of Keras by its path; a user may have given something else."""
    match variable:
        case Variable():
            return variable.name
        case _Pathed():
            return variable.path
        case _:
            return variable
