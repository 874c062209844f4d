"""`FaultPlan`: what is to break, and when, as plain data; for a cluster to come, or as ``cluster.faults`` for one that is there.

Invariant: what is refused is not planned.

Taught in lesson 01.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import cast

from simdist.errors import InvalidArgumentError
from simdist.faults.base import Fault
from simdist.faults.plan_json import faults_from_json, faults_to_json
from simdist.faults.plan_messages import PlansOfMessages
from simdist.faults.plan_tasks import PlansOfTasks
from simdist.faults.planner import AnyFault
from simdist.faults.table import as_html, as_text, rows_of

__all__ = ["FaultPlan", "copy_of", "require_plannable"]


class FaultPlan(PlansOfTasks, PlansOfMessages):
    """Faults, in the order in which they were planned.

    Attributes:
        planned: all of them.

    Example:
        >>> plan = FaultPlan()
        >>> _ = plan.lose_host("worker:1", at=0.5, restart_after=2.0)
        >>> _ = plan.drop("worker:0", "ps:0", kind="update", after_steps=10, until=3.0, probability=0.5)
        >>> plan
        fault                               begins          ends   state    fired  healed
        lose_host('worker:1')     at=0.5          -     pending  -      -
          restart_after=2.0
        drop('worker:0', 'ps:0')            after_steps=10  3 s    pending  -      -
          messages='update', probability=0.5

        It can be kept as text, and planned for any cluster that has these tasks:

        >>> import simdist as sd
        >>> cluster = sd.Cluster({"worker": 2, "ps": 1})
        >>> cluster.faults.extend(FaultPlan.from_json(plan.to_json()))
        >>> [fault.describe() for fault in cluster.faults]
        ["lose_host('worker:1', at=0.5)", "drop('worker:0', 'ps:0', after_steps=10)"]
    """

    def __init__(self) -> None:
        self.planned: list[Fault] = []

    def __iter__(self) -> Iterator[Fault]:
        return iter(self.planned)

    def __len__(self) -> int:
        return len(self.planned)

    def add(self, fault: AnyFault) -> AnyFault:
        """Plan a fault of any kind.

        Returns:
            The same fault; it tells later when it fired.

        Raises:
            InvalidArgumentError: it makes no sense here, its class has no name, or it is planned already.
            TypeError: it is no fault.
        """
        self._check(fault)
        fault.planned = True
        self.planned.append(fault)
        return fault

    def require(self, fault: Fault) -> None:
        """Refuse what could not be planned; nothing is.

        Raises:
            InvalidArgumentError, TypeError: as `add`.
        """
        self._check(copy_of(fault))

    def extend(self, plan: FaultPlan) -> None:
        """Plan what another plan has, all of it or, where something is refused, nothing; the other one stays as it is.

        Raises:
            InvalidArgumentError: one of its faults makes no sense here.
            TypeError: it is no plan.
        """
        if not isinstance(cast("object", plan), FaultPlan):
            raise TypeError(f"extend takes a FaultPlan; got {type(plan).__name__}. A single fault is planned by add.")
        faults = [copy_of(fault) for fault in plan]
        for fault in faults:
            self._check(fault)
        for fault in faults:
            self.add(fault)

    def state(self, fault: Fault) -> str:
        """What has become of a fault: "pending", "fired" (and not healed), "healed", or "never": it did not fire, and cannot any more."""
        if fault.fired:
            return "healed" if fault.healed else "fired"
        return "never" if fault.is_missed else "pending"

    def to_json(self) -> str:
        """The plan as text: each fault with its kind, its figures and its trigger, not with what has become of it.

        Raises:
            InvalidArgumentError: a fault begins when a predicate holds, which has no text.
        """
        return faults_to_json(self.planned)

    @staticmethod
    def from_json(text: str) -> FaultPlan:
        """The plan of a text that `to_json` made. It belongs to no cluster yet: ``cluster.faults.extend(plan)``.

        Raises:
            InvalidArgumentError: it is no such text, or has a kind, a figure or a version that is not known.
        """
        return _plan_of(faults_from_json(text))

    def __reduce__(self) -> tuple[Callable[..., FaultPlan], tuple[list[Fault]]]:
        """A copy has the same faults once more, none of which has fired; that of ``cluster.faults`` too belongs to no cluster."""
        return _plan_of, ([copy_of(fault) for fault in self.planned],)

    def _check(self, fault: Fault) -> None:
        """Refuse what cannot be planned."""
        require_plannable(fault)
        fault.check()

    def __repr__(self) -> str:
        return as_text(rows_of(self.planned, self.state))

    def _repr_html_(self) -> str:
        return as_html(rows_of(self.planned, self.state))


def _plan_of(faults: Iterable[Fault]) -> FaultPlan:
    plan = FaultPlan()
    for fault in faults:
        plan.add(fault)
    return plan


def require_plannable(fault: Fault) -> None:
    """Refuse what is no fault, has no name, or is planned already.

    Raises:
        TypeError, InvalidArgumentError: it is so.
    """
    if not isinstance(cast("object", fault), Fault):
        raise TypeError(f"add takes a fault, such as Crash('worker:1', trigger=Trigger(at=0.5)); got {type(fault).__name__}.")
    if not fault.kind:
        raise InvalidArgumentError(f"{type(fault).__name__} has no name. Write class {type(fault).__name__}(..., kind='...').")
    if fault.planned:
        raise InvalidArgumentError(f"{fault.describe()} is planned already, and a fault fires once. Make another one.")


def copy_of(fault: Fault) -> Fault:
    """The same fault once more, as one that is not planned yet."""
    return type(fault)(**fault.figures, trigger=fault.trigger)
