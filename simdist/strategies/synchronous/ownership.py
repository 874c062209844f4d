"""Whose variables a program uses: a step runs under the strategy in whose scope they were created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simdist.errors import FailedPreconditionError
from simdist.program.operations import Operation, Program, Read, Update, VariableHandle
from simdist.strategies import context
from simdist.variables.handles import variable_of

if TYPE_CHECKING:
    from simdist.strategies.base import Strategy

__all__ = ["require_own"]


def require_own(strategy: Strategy, program: Program) -> None:
    """Variables of another strategy have copies on other devices.

    Raises:
        FailedPreconditionError: the program uses one.
        StepBelongsTo: it uses only those of one other strategy, where nobody has chosen this one: that one should run it.
    """
    used = [variable_of(handle) for operation in program.operations for handle in _variables(operation)]
    owners = {id(variable.placement.store): variable.placement.store.strategy for variable in used}
    if set(owners) <= {id(strategy.store)}:
        return
    owner = next(iter(owners.values())) if len(owners) == 1 else None
    if owner is not None and not context.has_strategy() and context.is_default(strategy):
        raise context.StepBelongsTo(owner)
    foreign = next(variable for variable in used if variable.placement.store is not strategy.store)
    raise FailedPreconditionError(
        f"Mixing different strategies: {foreign.name} was made in the scope of {foreign.placement.store.strategy!r}, but "
        f"{program.name} runs under {strategy!r}. Make the variable in this strategy's scope, or run the step under the other one."
    )


def _variables(operation: Operation) -> tuple[VariableHandle, ...]:
    if isinstance(operation, Update):
        return operation.variables
    return (operation.variable,) if isinstance(operation, Read) else ()
