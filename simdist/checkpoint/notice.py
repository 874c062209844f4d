"""Notices of pre-emption, on which several mains agree: what one of them knows, all know at the same step.

Before each step the mains share what they know, with one small all-gather, so that all of them stop after the same step.

Taught in lesson 13.
"""

from __future__ import annotations

from simdist.checkpoint.mains import Mains

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
        engine = self.mains.engine
        own_s = None if engine is None else engine.preempted_at(self.mains.task)
        _, known = self.mains.all_of({}, min((s for s in (own_s, also_s) if s is not None), default=None))
        return min((s for s in known if s is not None), default=None)
