"""`ServedPrograms`: what a strategy with servers keeps of the steps that one replica of a worker takes, traced and linked."""

from __future__ import annotations

from collections.abc import Callable

from simdist.caches import BoundedCache, OfLiving
from simdist.program.bound_call import BoundCall
from simdist.program.function import KEPT_SIGNATURES, ProgramCache, StepFunction, program_cache
from simdist.program.operations import Program
from simdist.runtime.linked import LinkedProgram
from simdist.variables.state import Layout

__all__ = ["ServedPrograms"]


class ServedPrograms:
    """The programs of steps, for all workers. They go with the step: a strategy keeps no model that its user has dropped.

    Args:
        layout: where the strategy's variables are.
        link: links a program, for the number of a worker that has copies of its own of variables.
    """

    def __init__(self, layout: Layout, link: Callable[[Program, int], LinkedProgram]) -> None:
        self.layout = layout
        self._link = link
        self._traced: OfLiving[StepFunction, ProgramCache] = OfLiving(KEPT_SIGNATURES)
        self._linked: OfLiving[StepFunction, BoundedCache[tuple[Program, int], LinkedProgram]] = OfLiving(KEPT_SIGNATURES)

    def program(self, fn: StepFunction, call: BoundCall) -> Program:
        """The program of a call, as `StepFunction.program`."""
        return fn.program(call, self._traced.get(fn, program_cache))

    def linked(self, fn: StepFunction, program: Program, number: int) -> LinkedProgram:
        """A program of this step, linked: once for all workers of a number, again when the layout of the variables has changed."""
        key, kept = (program, number), self._linked.get(fn, lambda: BoundedCache(KEPT_SIGNATURES))
        linked = kept.get(key, lambda: self._link(program, number))
        if linked.version != self.layout.version:
            kept.drop(key)
            linked = kept.get(key, lambda: self._link(program, number))
        return linked
