"""Steps that one replica of a synchronous strategy takes alone, with the values that its variables have there.

No other replica takes part, so that a launched main may do it by itself; what such a step would assign is refused. Before the first step of
all mains there is nobody to get first values from: those of a main are the chief's, as it draws the seeds that the chief draws.
"""

from __future__ import annotations

from collections.abc import Sequence

from simdist.caches import BoundedCache, OfLiving
from simdist.errors import FailedPreconditionError, OutOfRangeError
from simdist.program.arrays import Tree
from simdist.program.function import KEPT_SIGNATURES, StepFunction
from simdist.program.operations import Program, Update
from simdist.program.replica_programs import ReplicaPrograms
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.linking import link
from simdist.runtime.replicas import Member
from simdist.strategies import context
from simdist.strategies.communication import GroupCommunication
from simdist.strategies.synchronous.outcome import StepOutcome
from simdist.strategies.synchronous.protocols import SteppingStrategy
from simdist.variables.gradient_sum import GradientPolicy

__all__ = ["StepsAlone"]


class StepsAlone:
    """Steps of the first replica that this program drives.

    Args:
        strategy: whose replica it is.
    """

    def __init__(self, strategy: SteppingStrategy) -> None:
        self.strategy = strategy
        self.group = strategy.engine.replica_group(GroupCommunication(strategy.engine, strategy.options))
        self._traced: OfLiving[StepFunction, ReplicaPrograms] = OfLiving(KEPT_SIGNATURES)
        self._linked: OfLiving[StepFunction, BoundedCache[Program, LinkedProgram]] = OfLiving(KEPT_SIGNATURES)

    def step(self, fn: StepFunction, args: Sequence[Tree]) -> StepOutcome:
        """Run one step; it takes virtual time.

        Args:
            fn: which changes no variable.
            args: its arguments; of an iterator, a dataset's own.

        Raises:
            OutOfRangeError: the dataset has run out.
            UnavailableError: the task of the replica has died.
            FailedPreconditionError: the step changes a variable.
        """
        strategy = self.strategy
        first = strategy.local_members[0]
        member = Member(0, first.task, first.device, first.process)
        call = fn.bind(args, {})
        try:
            with context.stepping(strategy):
                (program,) = self._traced.get(fn, lambda: ReplicaPrograms(fn, 1, 0, GradientPolicy())).programs([call])
        except StopIteration:
            raise OutOfRangeError("The dataset has run out. Ask for fewer steps.") from None
        linked = self._link(fn, program)
        return StepOutcome(strategy.engine, [linked], self.group.run([member], [member], [linked], [call]))

    def _link(self, fn: StepFunction, program: Program) -> LinkedProgram:
        if any(isinstance(op, Update) for op in program.operations):
            raise FailedPreconditionError(f"{program.name} changes a variable, which one replica cannot do alone.")
        kept = self._linked.get(fn, lambda: BoundedCache(KEPT_SIGNATURES))
        linked = kept.get(program, lambda: link(program, self.strategy.store.layout, 0))
        if linked.version != self.strategy.store.layout.version:
            kept.drop(program)
            linked = kept.get(program, lambda: link(program, self.strategy.store.layout, 0))
        return linked
