"""The protocol of a kind of disturbance: how it is drawn, how it is put into a run, and which errors it excuses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simdist.chaos.dice import Dice
from simdist.chaos.scenarios import Disturbance, Options, Scenario

if TYPE_CHECKING:
    from simdist.chaos.stage import Stage

__all__ = ["Ground", "Kind", "trigger_of"]


@dataclass(frozen=True)
class Ground:
    """What an undisturbed run of a scenario shows: where a disturbance can be put.

    Args:
        length_s: how long it took.
        moments_s: when its spans began and ended.
        roles: the tasks that may be hit, by what they are: "worker", "server", "chief".
        steps: how many steps each task took.
        observations: how often the workload offered to read numbers.
        scales_s: spans of time that matter to recovery: a latency, the run, a back-off.
        disks: the tasks whose disks were used.
    """

    length_s: float
    moments_s: tuple[float, ...]
    roles: dict[str, tuple[str, ...]]
    steps: dict[str, int]
    observations: int
    scales_s: tuple[float, ...]
    disks: tuple[str, ...] = ()


class Kind(ABC):
    """A kind of disturbance. To add one: a file here, and an entry in `KINDS`.

    Attributes:
        name: as scenarios write it.
        share: of the scenarios in which it may happen at all.
        needs_numbers: whether it makes sense only where numbers are computed.
        needs_disks: whether it is drawn only where disks are used.
    """

    name: str
    share: float
    needs_numbers: bool = False
    needs_disks: bool = False

    @abstractmethod
    def draw(self, dice: Dice, ground: Ground) -> list[Disturbance]:
        """Some disturbances of this kind."""

    @abstractmethod
    def plan(self, stage: Stage, disturbance: Disturbance) -> Callable[[], bool]:
        """Put it into a run that is about to begin; the result tells later whether it happened."""

    def over_s(self, disturbance: Disturbance) -> float:
        """The second after which it changes nothing any more, where that is known."""
        return disturbance.at_s or 0.0

    def among(self, disturbance: Disturbance, tasks: set[str]) -> Disturbance | None:
        """What is left of it where only these tasks are there; None: nothing."""
        return disturbance if disturbance.task in tasks else None

    def smaller(self, disturbance: Disturbance) -> Iterator[Disturbance]:
        """With less in it, beyond figures of fewer digits."""
        return iter(())

    def excuses(self, disturbance: Disturbance, scenario: Scenario) -> Sequence[type[BaseException]]:
        """Errors with which a run may end because of it, beyond those that follow from deaths."""
        return ()


def trigger_of(disturbance: Disturbance) -> Options:
    """The arguments at=, after_steps= or when= of a method of ``cluster.faults``."""
    if disturbance.at_s is not None:
        return {"at": disturbance.at_s}
    if disturbance.after_steps is not None:
        return {"after_steps": disturbance.after_steps}
    assert disturbance.when is not None
    category, count = disturbance.when
    return {"when": lambda cluster: len(cluster.trace.instants.where(category=category)) >= count}
