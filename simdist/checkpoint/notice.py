"""Notices of pre-emption, on which several mains agree: what one of them knows, all know at the same step.

Before each step the mains share what they know, with one small all-gather, so that all of them stop after the same step. A program knows
the notices of its own machine, and of the machines whose replicas it drives.

Taught in lesson 13.
"""

from __future__ import annotations

from simdist.checkpoint.mains import Mains
from simdist.runtime.launched_main import launched_main

__all__ = ["Notices"]


class Notices:
    """The notices that some mains have got.

    Args:
        mains: that agree.
    """

    def __init__(self, mains: Mains) -> None:
        self.mains = mains

    def soonest_s(self, also_s: float | None = None) -> float | None:
        """The first virtual second at which one of the tasks will be killed, as far as one of them knows; every main has to ask.

        Args:
            also_s: what this main knows from elsewhere.

        Returns:
            The second; None where nobody has a notice.
        """
        _, known = self.mains.all_of({}, min((s for s in (*self._own_s(), also_s) if s is not None), default=None))
        return min((s for s in known if s is not None), default=None)

    def _own_s(self) -> list[float | None]:
        """What this program knows by itself, in seconds of the clock of its variables."""
        engine, main = self.mains.engine, launched_main.get()
        found = [] if engine is None else [engine.preempted_at(task) for task in self.mains.driven_tasks]
        if main is None or main.cluster.engine is engine:
            return found
        # Its variables belong to another cluster, or to none.
        killed_s: float | None = main.cluster.engine.preempted_at(main.task)
        return [*found, None if killed_s is None else self.mains.now_s + killed_s - main.cluster.engine.now]
