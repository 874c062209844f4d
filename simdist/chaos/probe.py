"""The probe: it observes a run from inside, whenever a step ends or the chief's beliefs change, and changes nothing."""

from __future__ import annotations

from simdist.runtime.cluster import Cluster

__all__ = ["Probe", "held_bytes"]


class Probe:
    """The observations of a run.

    Attributes:
        clock_s: the clock, each time.
        held_while_down: (second, place, bytes) of tasks that are down and hold memory.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.runtime = cluster.world
        self.clock_s: list[float] = []
        self.held_while_down: list[tuple[float, str, int]] = []
        self.runtime.step_ended.append(self._observe)
        self.runtime.detection.listeners.append(self._observe)

    def _observe(self, _: object) -> None:
        now = self.runtime.now
        self.clock_s.append(now)
        for task in self.runtime.tasks.values():
            if not task.alive:
                self.held_while_down += [(now, p.name, p.memory.in_use_bytes) for p in task.processors.values() if p.memory.in_use_bytes]

    def final(self) -> None:
        """Observe once more, at the end."""
        self._observe(None)


def held_bytes(cluster: Cluster) -> dict[str, int]:
    """The bytes that every processor holds now."""
    return {p.name: int(p.memory.in_use_bytes) for task in cluster.world.tasks.values() for p in task.processors.values()}
