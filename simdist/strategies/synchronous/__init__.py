"""Synchronous strategies: a strategy, the replicas that take its steps, and the policy of a step.

- `strategy`: places variables, traces and links steps, and runs them.
- `replicated`: who takes part: replicas, tasks, devices.
- `protocols`: what these know of each other.
- `replicas`: which replicas there are, driven by one program, or by one main for each worker.
- `policies`: what a step waits for; `local_steps` and `elastic` hold two policies with a state.
"""

from simdist.strategies.synchronous.outcome import StepOutcome
from simdist.strategies.synchronous.strategy import SynchronousStrategy

__all__ = ["StepOutcome", "SynchronousStrategy"]
