"""An engine that runs everything at once, in the caller's place: no clock, no network, no faults. It says what a program means.

Every kernel is called directly, every variable always has its arrays, a closure has replied before `schedule` returns, and the
replicas of a step go on in turn, from one collective to the next. What only says how long something takes (``seconds=`` of a
step, the pace of an input, a time-out) has nothing to change here; what cannot be done without time is refused. Devices hold as
much as this process can: their accounts say who holds what, and refuse nothing.

Invariants:

- The bits are those of the simulated engine, wherever the order of updates does not depend on time: of synchronous strategies
  always, of parameter servers with one worker. With several workers closures run here in the order of scheduling.
- A step of replicas that fails has left no mark, on variables or on the count of steps.
- Code of users runs in the context of its worker; when it has ended, however, the caller's is in its place again.
"""

from __future__ import annotations

from simdist.runtime.in_process.engine import InProcessEngine

__all__ = ["InProcessEngine"]
