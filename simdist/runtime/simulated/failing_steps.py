"""Programs that repeat a step which fails at once, for a reason that passes with time: but virtual time stands still in between.

The loop ``while True: try: step() except UnavailableError: pass`` has an end on machines, where time passes by itself. Here the step
raises another error after `MOST` attempts, which such a loop lets through; a main that catches it as well is left where it stands.
"""

from __future__ import annotations

from simdist.errors import DeadlineExceededError
from simdist.simulation.fiber import Fiber, current_fiber
from simdist.simulation.kernel import Clock

__all__ = ["FailingSteps"]

MOST = 1_000  # failed steps of one program at one moment


class FailingSteps:
    """Counts the steps that fail at the present moment, for each program.

    Args:
        clock: of the engine.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moment_s = 0.0
        self._counts: dict[Fiber | None, int] = {}

    def note(self, error: Exception) -> None:
        """A step of the program that runs has failed.

        Raises:
            DeadlineExceededError: so many have failed at this moment that none will succeed.
        """
        if self._clock.now != self._moment_s:
            self._moment_s, self._counts = self._clock.now, {}
        fiber = current_fiber()
        count = self._counts[fiber] = self._counts.get(fiber, 0) + 1
        if count < MOST:
            return
        too_often = self._too_often(fiber, error)
        if fiber is not None and count >= 2 * MOST:
            self._clock.leave(fiber, too_often)
        raise too_often from error

    def _too_often(self, fiber: Fiber | None, error: Exception) -> DeadlineExceededError:
        who = "this program" if fiber is None else f"the program of {fiber.lane}"
        return DeadlineExceededError(
            f"{MOST} steps of {who} have failed at {self._moment_s:.9g} s, and virtual time stands still in between: a loop that repeats "
            "them would never end. Let the error end the main, and launch it with restart='always'; or let time pass with "
            f"sd.sleep(seconds) before the next attempt, and make the strategy again. The last error: {error}"
        )
