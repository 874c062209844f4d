"""An engine of which each task has a memory of its own: whatever crosses between the driver and a task, or between two tasks, is bytes.

Everything happens at once, as in the engine around it, and in one process. But the driver and its tasks share no object, so that what is
right here can be right on several machines.

    driver (engine, groups, workers, replicas) -- post --> switchboard -- bytes --> host of a task (held_groups, host_step)

Code of users stays at the driver: steps are bound, traced and linked there, and datasets are read there; programs, kernels, arrays and
batches travel (`simdist.runtime.wire`). A plain Python function is refused, because it is no data.

Invariants:

- The bits are those of the engine whose tasks share memory.
- A host knows nothing but what messages have brought: no variable, optimizer, dataset, trace or function of users.
- The batches of a step are taken before it begins, and travel with it.
- Sums of replicas are made by the driver, in the order of the strategy's schedule. All else that the replicas of a worker do together is
  done on its host, when the driver knows that all have come (`host_replicas.py`).
"""

from __future__ import annotations

from simdist.runtime.in_process.isolated.engine import IsolatedEngine

__all__ = ["IsolatedEngine"]
