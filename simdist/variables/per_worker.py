"""`PerWorkerVariable`: a variable of which every worker has a copy of its own.

A step reads and updates the copy of the worker that runs it, which takes no network. Copies are never combined: the coordinator gets
all of them by `read_all`. A worker that restarts begins with the initial value again.

Taught in lesson 07.
"""

from __future__ import annotations

import numpy as np

from simdist.errors import FailedPreconditionError
from simdist.program.arrays import HostArray
from simdist.program.tracing import active_tracer
from simdist.variables.variable import Variable

__all__ = ["PerWorkerVariable"]


class PerWorkerVariable(Variable):
    """What ``sd.Variable(..., per_worker_variable=True)`` gives under a `ParameterServerStrategy`.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}))
        >>> with strategy.scope():
        ...     steps = sd.Variable(0.0, per_worker_variable=True, name="steps")
        >>> coordinator = sd.ClusterCoordinator(strategy)
        >>> closures = [coordinator.schedule(sd.function(lambda: steps.assign_add(1.0))) for _ in range(10)]
        >>> coordinator.join()
        >>> float(sum(steps.read_all()))
        10.0
    """

    def read_all(self) -> list[HostArray]:
        """The present values of all workers, in their order. Takes no virtual time.

        Raises:
            UnavailableError: a worker is down.
            FailedPreconditionError: called while a step is traced.
        """
        if active_tracer() is not None:
            raise FailedPreconditionError(f"{self.name}.read_all() was called in a step; call it where the coordinator is.")
        return [np.asarray(self.placement.store.cell_value(self, cell)) for cell in self.placement.cells]

    @classmethod
    def of(cls, variable: Variable) -> None:
        """Change the class of a variable of which every worker has a copy to this one."""
        variable.__class__ = cls
