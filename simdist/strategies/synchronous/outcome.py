"""`StepOutcome`: what a step has returned on each replica, computed when it is read."""

from __future__ import annotations

from collections.abc import Sequence

from simdist.program.arrays import Array, Tree, jax_arrays
from simdist.program.per_replica import per_replica
from simdist.program.values import Bundle
from simdist.runtime.base import Engine
from simdist.runtime.linked import LinkedProgram

__all__ = ["StepOutcome"]


class StepOutcome:
    """The results of a step, one for each replica that this program drives.

    Args:
        engine: where the step ran; it holds the arrays.
        linked: the programs of the replicas, which know the structure of their results.
        bundles: the arrays of each replica, perhaps still to be computed; None for one that the step did not wait for: it has no result.
    """

    def __init__(self, engine: Engine, linked: Sequence[LinkedProgram], bundles: Sequence[Bundle | None]) -> None:
        self.engine = engine
        self.linked = linked
        self.bundles = bundles

    def value(self) -> Tree:
        """The results: `PerReplica` values, or with one replica the value itself; computed now where this is the first read."""
        engine = self.engine
        there = [(linked, bundle) for linked, bundle in zip(self.linked, self.bundles, strict=True) if bundle is not None]
        arrays = engine.arrays([bundle for _, bundle in there])
        results = [linked.rebuild(list[Array](jax_arrays(own))) for (linked, _), own in zip(there, arrays, strict=True)]
        if any(bundle.avals for _, bundle in there):
            engine.trace.observed()
        return per_replica(results)
