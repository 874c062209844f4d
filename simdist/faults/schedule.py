"""`Faults`: the plan of one cluster, ``cluster.faults``, which watches for the moments and makes its faults happen.

A fault fires once: at a virtual second, after a number of steps of its task (updates, of a parameter server), or as soon as
a predicate of the cluster holds (asked whenever a traced step, or an update of a server, ends; plain functions under
`ClusterCoordinator.schedule` have no steps). One whose end has passed when it would begin never fires. A fault that never
fired is a warning when the cluster is closed.

A wait that nothing else can end goes on to the second of a planned fault: a crash may give work to another task, or start a paused task
again. A program that has ended waits for none.

Taught in lesson 01.
"""

from __future__ import annotations

import warnings

from simdist.errors import InvalidArgumentError, SimdistError
from simdist.faults.base import Fault
from simdist.faults.effects import Effects, Heal
from simdist.faults.plan import FaultPlan, require_plannable
from simdist.faults.planner import AnyFault, Predicate

__all__ = ["Faults"]

MOST_NAMED = 8  # faults that never fired, by a warning of their own each


class Faults(FaultPlan):
    """The faults of one cluster.

    Args:
        effects: what they may touch.

    Example:
        >>> import simdist as sd
        >>> cluster = sd.Cluster({"worker": 2})
        >>> _ = cluster.faults.slow("worker:0", 3.0, at=0.5, until=2.0)
        >>> _ = cluster.faults.crash("worker:1", at=5.0)
        >>> sd.sleep(3.0, cluster)
        >>> cluster.faults
        fault              begins  ends   state    fired  healed
        slow('worker:0')   at=0.5  2 s    healed   0.5 s  2 s
          factor=3.0
        crash('worker:1')  at=5.0  -     pending  -      -
    """

    def __init__(self, effects: Effects) -> None:
        super().__init__()
        self.effects = effects
        self._waiting: tuple[Fault, ...] = ()  # those that steps decide about

    def add(self, fault: AnyFault) -> AnyFault:
        """Plan a fault of any kind.

        Returns:
            The same fault; it tells later when it fired.

        Raises:
            InvalidArgumentError: it makes no sense here, its class has no name, or it is planned already.
            TypeError: it is no fault.
            FailedPreconditionError: the cluster is closed.
        """
        super().add(fault)
        if fault.silences:
            self.effects.expect_silence()
        if fault.trigger.at is not None:
            self.effects.at(fault.trigger.at, lambda: self._begin(fault), awaited=fault.may_end_waits)
        else:
            self._waiting = (*self._waiting, fault)
            if self._step_ended not in self.effects.step_ended:
                self.effects.step_ended.append(self._step_ended)
        return fault

    def state(self, fault: Fault) -> str:
        known = super().state(fault)
        if known != "pending":
            return known
        # The cluster is closed; or the task is gone whose steps would say when.
        awaited = None if fault.trigger.after_steps is None else fault.tasks[0]
        return "never" if self.effects.is_over(awaited) else known

    def warn_about_unfired(self) -> None:
        """Warn of each fault that never happened: the experiment was not the one that was meant."""
        unfired = [fault for fault in self.planned if not fault.fired]
        for fault in unfired[:MOST_NAMED]:
            warnings.warn(f"The fault {fault.describe()} never fired: the run ended before its moment came.", stacklevel=3)
        if left := len(unfired[MOST_NAMED:]):
            text = "Another fault" if left == 1 else f"{left:,} other faults"
            warnings.warn(f"{text} never fired, too. The table of cluster.faults says which.", stacklevel=3)

    def _check(self, fault: Fault) -> None:
        self.effects.require_open("A fault was planned")
        require_plannable(fault)
        fault.check(self.effects)

    def _step_ended(self, task: str) -> None:
        for fault in self._waiting:
            if not fault.fired and self._is_time(fault, task):
                self._forget(fault)
                self._begin(fault)

    def _is_time(self, fault: Fault, task: str) -> bool:
        if fault.trigger.when is not None:
            return self._holds(fault, fault.trigger.when)
        steps = fault.trigger.after_steps
        return steps is not None and fault.tasks[0] == task and self.effects.progress(task) >= steps

    def _holds(self, fault: Fault, predicate: Predicate) -> bool:
        """Whether the predicate of a fault holds; one that fails is an error of the program, and is not asked again."""
        try:
            return self.effects.ask(predicate)
        except Exception as error:
            self._forget(fault)
            fault.is_missed = True
            how = str(error) if isinstance(error, SimdistError) else f"{type(error).__name__}: {error}"
            wrong = InvalidArgumentError(
                f"The predicate of {fault.describe()} failed: {how.rstrip('.')}. A predicate takes the cluster, looks (it cannot wait), "
                "and returns True or False; the fault did not fire, and the predicate is not asked again."
            )
            wrong.__cause__ = error
            self.effects.tell_driver(wrong)
            return False

    def _forget(self, fault: Fault) -> None:
        """Steps decide about it no more."""
        self._waiting = tuple(other for other in self._waiting if other is not fault)

    def _begin(self, fault: Fault) -> None:
        ends_s = fault.ends_s
        if ends_s is not None and ends_s <= self.effects.now:
            fault.is_missed = True  # it would end before it began: it never fired
            return
        if fault.silences or fault.disturbs:
            self.effects.disturb()
        fault.fired_s = self.effects.now
        before = self.effects.silences
        heal = fault.begin(self.effects)
        silences = fault.silences or self.effects.silences > before  # a kind of a user's own may not have announced it
        if heal is not None and ends_s is not None:
            if silences:
                self.effects.silent_until(ends_s)
            self.effects.at(ends_s, lambda: self._end(fault, heal), awaited=silences)

    def _end(self, fault: Fault, heal: Heal) -> None:
        fault.healed_s = self.effects.now
        heal()
