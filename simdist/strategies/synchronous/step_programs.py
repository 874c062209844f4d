"""`StepPrograms`: what a synchronous strategy keeps of its steps, traced for each replica and linked to its variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from simdist.caches import BoundedCache, OfLiving
from simdist.program.function import KEPT_SIGNATURES, StepFunction
from simdist.program.operations import Program
from simdist.program.replica_programs import ReplicaPrograms
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.linking import link
from simdist.runtime.linking_kernels import KnownKernels
from simdist.runtime.row_sums import kept_rows, most_ids
from simdist.runtime.updating import prepare
from simdist.variables.layout import Layout

__all__ = ["StepPrograms"]

LinkedPrograms = BoundedCache[tuple[Program, ...], list[LinkedProgram]]


class StepPrograms:
    """The programs of a strategy's steps. They go with the step: a strategy keeps no model that its user has dropped.

    Args:
        layout: where the strategy's variables are.
        require_own: raises where a program uses other variables than the strategy's.
    """

    def __init__(self, layout: Layout, require_own: Callable[[Program], None]) -> None:
        self.layout = layout
        self.require_own = require_own
        self._traced: OfLiving[StepFunction, ReplicaPrograms] = OfLiving(KEPT_SIGNATURES)
        self._linked: OfLiving[StepFunction, LinkedPrograms] = OfLiving(KEPT_SIGNATURES)

    def traced(self, fn: StepFunction, make: Callable[[], ReplicaPrograms]) -> ReplicaPrograms:
        """The programs of a step, by its signatures."""
        return self._traced.get(fn, make)

    def linked(self, fn: StepFunction, programs: Sequence[Program]) -> list[LinkedProgram]:
        """Programs of local replicas, traced of this step, linked to the cells where the variables are now."""
        known, kept = tuple(programs), self._linked.get(fn, _none_linked)
        linked = kept.get(known, lambda: self._link(programs))
        if linked[0].version != self.layout.version:
            kept.drop(known)
            linked = kept.get(known, lambda: self._link(programs))
        return linked

    def take_rows(self, fn: StepFunction, programs: Sequence[Program]) -> bool:
        """Whether updates take all gradients of rows that a single replica gives them; several can always add them up as tables."""
        given = programs[0].collectives
        if not given or given[0].num_replicas > 1:
            return True
        known, kept = tuple(programs), self._linked.get(fn, _none_linked)
        if known in kept and kept.get(known, list)[0].version == self.layout.version:
            return True
        self._prepare(programs)
        return len(kept_rows(programs[0], 0, most_ids(programs))) == len(given)

    def _prepare(self, programs: Sequence[Program]) -> None:
        for local_rank, program in enumerate(programs):
            self.require_own(program)
            prepare(program, self.layout, local_rank)

    def _link(self, programs: Sequence[Program]) -> list[LinkedProgram]:
        self._prepare(programs)
        num_ids, kernels = most_ids(programs), KnownKernels()
        return [link(program, self.layout, local_rank, num_ids, kernels) for local_rank, program in enumerate(programs)]

    def forget(self, fn: StepFunction) -> None:
        """Drop what is kept of a step."""
        self._traced.drop(fn)
        self._linked.drop(fn)

    @contextmanager
    def once(self, fn: StepFunction) -> Iterator[None]:
        """The step runs inside of this, and never again: what was made for it goes."""
        try:
            yield
        finally:
            self.forget(fn)

    def clear(self) -> None:
        """Drop everything: there are other replicas now."""
        self._traced.clear()
        self._linked.clear()


def _none_linked() -> LinkedPrograms:
    return BoundedCache(KEPT_SIGNATURES)
