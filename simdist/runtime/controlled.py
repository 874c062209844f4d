"""Whether the program that runs is under the control of a session, which stops the clock of one cluster and of no other."""

from __future__ import annotations

from simdist.process_state import TaskLocal

__all__ = ["is_controlled"]

is_controlled: TaskLocal[bool] = TaskLocal(lambda: False)
"""Whether a session runs this program."""
