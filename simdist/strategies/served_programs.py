"""`ServedPrograms`: what a strategy with servers keeps of the steps that one replica of a worker takes, traced and linked.

Before a program is linked, the variables that it uses are brought to their places, and those of other strategies are refused.
"""

from __future__ import annotations

from simdist.caches import BoundedCache, OfLiving
from simdist.program.bound_call import BoundCall
from simdist.program.function import KEPT_SIGNATURES, ProgramCache, StepFunction, program_cache
from simdist.program.operations import Program
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.linking import link
from simdist.runtime.rounds import require_one_step
from simdist.runtime.updating import prepare
from simdist.strategies.base import Strategy
from simdist.strategies.ownership import require_own
from simdist.strategies.server_variables import move_to_chief

__all__ = ["ServedPrograms"]


class ServedPrograms:
    """The programs of steps, for all workers. They go with the step: a strategy keeps no model that its user has dropped.

    Args:
        strategy: whose steps they are.
        in_rounds: whether workers proceed in rounds, so that a step may not read what it has changed.
    """

    def __init__(self, strategy: Strategy, in_rounds: bool) -> None:
        self.strategy = strategy
        self.layout = strategy.store.layout
        self.in_rounds = in_rounds
        self._traced: OfLiving[StepFunction, ProgramCache] = OfLiving(KEPT_SIGNATURES)
        self._linked: OfLiving[StepFunction, BoundedCache[tuple[Program, int], LinkedProgram]] = OfLiving(KEPT_SIGNATURES)

    def program(self, fn: StepFunction, call: BoundCall) -> Program:
        """The program of a call, as `StepFunction.program`."""
        return fn.program(call, self._traced.get(fn, program_cache))

    def linked(self, fn: StepFunction, program: Program, number: int) -> LinkedProgram:
        """A program of this step, linked: once for all workers of a number, again when the layout of the variables has changed.

        Args:
            fn: the step.
            program: what was traced of it.
            number: of a worker that has copies of its own of variables that the program uses; else 0.

        Raises:
            FailedPreconditionError: it uses variables of another strategy, or in rounds reads what it has changed.
        """
        key, kept = (program, number), self._linked.get(fn, lambda: BoundedCache(KEPT_SIGNATURES))
        linked = kept.get(key, lambda: self._link(program, number))
        if linked.version != self.layout.version:
            kept.drop(key)
            linked = kept.get(key, lambda: self._link(program, number))
        return linked

    def _link(self, program: Program, number: int) -> LinkedProgram:
        move_to_chief(self.strategy, program)
        require_own(self.strategy, program)
        prepare(program, self.layout, number)
        linked = link(program, self.layout, number)
        if self.in_rounds:
            require_one_step(linked, self.layout)
        return linked
