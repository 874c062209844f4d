"""What a coordinator refuses: calls from inside of its own closures, and other arguments than those with which it was made."""

from __future__ import annotations

from simdist.coordinator.options import CoordinatorOptions
from simdist.coordinator.synchronization import Synchronization
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.runtime.work import running_closure

__all__ = ["require_outside_of_closures", "require_same", "second_step"]


def require_outside_of_closures(strategy: object, what: str) -> None:
    """Refuse a call in a closure that the coordinator of this strategy has scheduled.

    Args:
        strategy: whose coordinator is called.
        what: the beginning of the message.

    Raises:
        FailedPreconditionError: it is.
    """
    closure = running_closure.get()
    if closure is not None and closure.strategy is strategy:
        raise FailedPreconditionError(
            f"{what} in closure {closure.number} on {closure.worker}, which this coordinator has scheduled itself. A worker runs "
            "closures, and one that waits for others keeps a place from them; model.fit does so too, as its steps are closures. Return "
            "from the closure what is needed, and call schedule, join or fit where the coordinator was made."
        )


def second_step(name: str, closure: int, worker: str) -> FailedPreconditionError:
    """The error of a plain function that takes one more step after one that changes variables, where a closure counts with its round.

    Args:
        name: of the step.
        closure, worker: in which it was called, and where.
    """
    return FailedPreconditionError(
        f"{name} is a second step of closure {closure} on {worker}, a plain function, after one that changes variables. Under mode='sync' "
        "and mode='bounded' that one counts when its round is complete, so the second would not see it. Let the last step of each function "
        "that is scheduled be the one that changes variables: put what it does into one function under @sd.function, and schedule more."
    )


def require_same(
    given: tuple[CoordinatorOptions, Synchronization | None],
    known: tuple[CoordinatorOptions, Synchronization],
    defaults: CoordinatorOptions,
) -> None:
    """Refuse other arguments for the coordinator that a strategy has.

    Args:
        given: the options and the synchronization of this call; None: that which there is.
        known: those of the coordinator.
        defaults: the options of a call that names none.

    Raises:
        InvalidArgumentError: they differ.
    """
    if given[0] not in (defaults, known[0]):
        raise InvalidArgumentError(
            f"This strategy has a coordinator already, with {known[0]!r}; they cannot become {given[0]!r}. Leave them out here, or "
            "make another strategy."
        )
    if given[1] not in (None, known[1]):
        raise InvalidArgumentError(
            f"This strategy has a coordinator already, with {known[1]!r}; {given[1]!r} cannot take its place. Leave synchronization= out, "
            "or make another strategy."
        )
