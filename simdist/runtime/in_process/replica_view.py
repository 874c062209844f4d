"""What one replica sees of variables in the middle of a step."""

from __future__ import annotations

from simdist.program.kernels import Kernel
from simdist.program.values import Bundle
from simdist.runtime.in_process.computing import call_kernel
from simdist.runtime.step_versions import StepVersions

__all__ = ["ReplicaView"]


class ReplicaView:
    """The versions that a replica has made itself so far. Another one, whose copy is the same, may be ahead.

    Args:
        versions: what the replicas of the step have made.
    """

    def __init__(self, versions: StepVersions) -> None:
        self.versions = versions
        self.updates: dict[int, int] = {}

    def present(self, group: int) -> Bundle:
        """A group as this replica sees it."""
        return self.versions.after(group, self.updates.get(group, 0))

    def change(self, group: int, kernel: Kernel, given: Bundle, where: str) -> None:
        """Make the next version of a group, where no other replica has made it already."""
        before = self.updates.get(group, 0)
        if not self.versions.known(group, before + 1):
            old = self.present(group)
            self.versions.add(group, call_kernel(kernel, [old, given], [old.avals], where=where)[0])
        self.updates[group] = before + 1
