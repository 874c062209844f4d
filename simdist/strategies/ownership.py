"""Whose variables are used, and where they are changed: a step runs under the strategy in whose scope they were created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simdist.errors import FailedPreconditionError
from simdist.program.operations import Program, variables_used
from simdist.program.tracing import active_tracer
from simdist.runtime.work import running_closure
from simdist.strategies import context
from simdist.variables.handles import variable_of
from simdist.variables.variable import Variable

if TYPE_CHECKING:
    from simdist.strategies.base import Strategy

__all__ = ["require_a_step", "require_own"]


def require_own(strategy: Strategy, program: Program) -> None:
    """Variables of another strategy have copies on other devices.

    Raises:
        FailedPreconditionError: the program uses one.
        StepBelongsTo: it uses only those of one other strategy, where nobody has chosen this one: that one should run it.
    """
    used = [variable_of(handle) for operation in program.operations for handle in variables_used(operation)]
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


def require_a_step(variable: Variable, option: str) -> None:
    """Refuse a change by a plain function of the coordinator's, where servers must know which closure a change belongs to.

    Args:
        variable: that is about to be changed outside of every step.
        option: of the strategy, because of which they must.

    Raises:
        FailedPreconditionError: such a function runs.
    """
    closure = running_closure.get()
    if closure is not None and closure.is_plain and active_tracer() is None:
        raise FailedPreconditionError(
            f"{variable.name} was about to be changed by a plain function that coordinator.schedule runs, under {option}: such a change "
            "does not say which closure it belongs to, so it would count twice where the closure is run again. Write the function with "
            "@sd.function, or leave the option out."
        )
