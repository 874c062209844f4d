"""From a program's handle, or from a variable of Keras, to our variable."""

from __future__ import annotations

from simdist.program.operations import VariableHandle
from simdist.variables.keras_objects import KerasVariable
from simdist.variables.variable import Variable

__all__ = ["AnyVariable", "adopted", "variable_of"]

AnyVariable = Variable | KerasVariable
"""A variable of ours, or one of Keras that a strategy may have adopted."""


def variable_of(handle: VariableHandle) -> Variable:
    """The variable that a program knows as a handle."""
    assert isinstance(handle, Variable)
    return handle


def adopted(variable: object) -> Variable | None:
    """The variable that has the value of one of Keras; None of anything that no strategy has adopted."""
    return getattr(variable, "simdist_variable", None)
