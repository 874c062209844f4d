"""An overlay: what stands for variables in a function whose gradient is taken, and what the function has assigned meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import jax

from simdist.errors import InvalidArgumentError
from simdist.program.operations import Reference, Rule, VariableHandle

__all__ = ["Overlay"]


class Reads(Protocol):
    """A tracer, as far as an overlay needs it."""

    def read(self, variable: VariableHandle) -> jax.Array:
        """The value of a variable at this point of the step."""
        ...


class Overlay:
    """Values that replace those of variables, and the assignments that were held back."""

    def __init__(self, values: dict[Reference, jax.Array]) -> None:
        self.values = values
        self.reads: list[VariableHandle] = []
        self.writes: list[tuple[Rule, tuple[VariableHandle, ...], list[jax.Array]]] = []
        self._unknown: set[Reference] = set()  # what an optimizer changes

    def write(self, tracer: Reads, rule: Rule, variables: Sequence[VariableHandle], operands: Sequence[jax.Array]) -> None:
        self.writes.append((rule, tuple(variables), list(operands)))
        self._unknown.update(variable.ref() for variable in variables if not isinstance(rule, str))
        for variable, operand in zip(variables, operands, strict=True):
            if rule == "assign":
                self._unknown.discard(variable.ref())
                variable.put_into(self.values, operand)
            elif rule == "add":
                variable.put_into(self.values, tracer.read(variable) + operand)

    def require_known(self, variable: VariableHandle) -> None:
        """Refuse to read what an optimizer has changed: it does so after the function whose gradient is taken.

        Raises:
            InvalidArgumentError: it has.
        """
        kept = any(not isinstance(rule, str) and rule.changes(variable) for rule, _, _ in self.writes)
        if kept or variable.ref() in self._unknown:
            raise InvalidArgumentError(
                f"{variable.name!r} is read inside sd.value_and_grad after apply_gradients has changed it there, and has its old value "
                "until the function is over. Call apply_gradients outside of that function, or compute the new value with arrays "
                "(w - rate * gradient) and go on with it."
            )
