"""Updates of some of the variables that a rule has a state for: the others are left as they are, with their state, and count the update."""

from __future__ import annotations

from collections.abc import Sequence

from simdist.errors import InvalidArgumentError
from simdist.variables.independence import changes_each_alone
from simdist.variables.keras_objects import core_of, is_keras_optimizer, is_scaling
from simdist.variables.optimizer_rule import OptimizerRule
from simdist.variables.state import Owner, owner_of
from simdist.variables.variable import Variable

__all__ = ["require_counting", "require_part"]


def require_part(rule: OptimizerRule, variables: Sequence[Variable]) -> None:
    """Refuse variables of which a rule has a state for some, and with which it cannot go on.

    Args:
        rule: of an Optax transformation.
        variables: that are to change; some of the rule's are among them.

    Raises:
        InvalidArgumentError: there are others among them, whose state would begin anew and apart; the rule needs to know of those that
            are missing.
    """
    known, wanted = set(map(id, rule.variables)), set(map(id, variables))
    new = [variable.name for variable in variables if id(variable) not in known]
    missing = [variable.name for variable in rule.variables if id(variable) not in wanted]
    if new:
        _refuse(rule, f"Now {', '.join(new)} shall change together with these")
    if rule.changes_each_alone is None:
        rule.changes_each_alone = changes_each_alone(rule.optimizer, rule.variables)
    if not rule.changes_each_alone:
        _refuse(
            rule,
            f"Now there is no gradient of {', '.join(missing)}, and what it does depends on all of them together, or on random numbers",
        )


def require_counting(rule: OptimizerRule, variables: Sequence[Variable]) -> None:
    """Refuse an update that leaves out all variables of a server, or of a replica, where it would have to do more than to count it.

    Args:
        rule: of a Keras optimizer.
        variables: that have a gradient.

    Raises:
        InvalidArgumentError: the optimizer has averages of all variables, or a loss scale that depends on the gradients of all.
    """
    optimizer = rule.optimizer
    if not is_keras_optimizer(optimizer) or not (is_scaling(optimizer) or core_of(optimizer).use_ema):
        return
    left_out = _owners(rule.variables) - _owners(variables)
    if left_out:
        missing = [v.name for v in rule.variables if not left_out.isdisjoint(map(owner_of, v.placement.cells))]
        tasks = sorted({task for task, _ in left_out})
        of_all = "use_ema=True averages all variables" if core_of(optimizer).use_ema else "its scale follows the gradients of all variables"
        raise InvalidArgumentError(
            f"{type(optimizer).__name__} was given no gradient of {', '.join(missing)}, nor of anything else beside these on "
            f"{', '.join(tasks)}, and {of_all} in each update. Give a gradient of each (zeros where there is none), or make an optimizer "
            "for each set of variables."
        )


def _owners(variables: Sequence[Variable]) -> set[Owner]:
    return {owner_of(cell) for variable in variables for cell in variable.placement.cells}


def _refuse(rule: OptimizerRule, why: str) -> None:
    known = ", ".join(variable.name for variable in rule.variables)
    raise InvalidArgumentError(
        f"sd.Optimizer has a state of {type(rule.optimizer).__name__} for {known}. {why}; a second state of them would "
        "begin anew. Call build() with all variables before the first step, and give a gradient of each (zeros where there is none); or "
        "make an optimizer for each set of variables."
    )
