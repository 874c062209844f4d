"""What befalls disks, and machines with their disks: no room, slowness, torn writes, preemptions.

They are drawn only where the undisturbed run has used disks: those of servers with `recovery="checkpoint"`, and of the chief that saves
checkpoints. A workload whose tasks use disks says so (`Workload.uses_disks`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simdist.chaos.dice import Dice
from simdist.chaos.kinds.base import Ground, Kind, trigger_of
from simdist.chaos.scenarios import Disturbance

if TYPE_CHECKING:
    from simdist.chaos.stage import Stage

__all__ = ["DiskFull", "DiskSlow", "Preempt", "TornWrite"]

MOST = 3


class OfDisks(Kind):
    """The common part: whom it befalls, and when."""

    share = 0.4
    needs_disks = True

    def draw(self, dice: Dice, ground: Ground) -> list[Disturbance]:
        drawn: list[Disturbance] = []
        while ground.disks and len(drawn) < MOST and (not drawn or dice.chance(0.4)):
            drawn.append(self._one(dice, ground, dice.pick(ground.disks)))
        return drawn

    def _one(self, dice: Dice, ground: Ground, task: str) -> Disturbance:
        how = dice.pick(["anywhere", "moment", "start", "steps"], [5, 3, 2, 1])
        if how == "steps" and ground.steps.get(task):
            return Disturbance(self.name, task, after_steps=dice.whole(1, ground.steps[task]), figures=self._figures(dice, ground, None))
        at_s = dice.real(0.0, 1.0) * ground.length_s if how == "anywhere" else 0.0
        if how == "moment" and ground.moments_s:
            at_s = dice.pick(ground.moments_s)
        return Disturbance(self.name, task, at_s=at_s, figures=self._figures(dice, ground, at_s))

    @abstractmethod
    def _figures(self, dice: Dice, ground: Ground, at_s: float | None) -> dict[str, Any]:
        """What the kind needs besides."""

    def _until(self, dice: Dice, ground: Ground, at_s: float | None) -> dict[str, Any]:
        if dice.chance(0.3):
            return {"until": None}
        return {
            "until": (ground.length_s if at_s is None else at_s) + dice.pick([dice.real(0.01, 1.0) * ground.length_s, dice.real(1.0, 25.0)])
        }

    def plan(self, stage: Stage, disturbance: Disturbance) -> Callable[[], bool]:
        fault = getattr(stage.cluster.faults, self.name)(disturbance.task, **trigger_of(disturbance), **disturbance.figures)
        return lambda: fault.fired

    def over_s(self, disturbance: Disturbance) -> float:
        return max(disturbance.at_s or 0.0, disturbance.figures.get("until") or 0.0)


class DiskFull(OfDisks):
    """``cluster.faults.disk_full``."""

    name = "disk_full"

    def _figures(self, dice: Dice, ground: Ground, at_s: float | None) -> dict[str, Any]:
        return self._until(dice, ground, at_s)


class DiskSlow(OfDisks):
    """``cluster.faults.disk_slow``."""

    name = "disk_slow"

    def _figures(self, dice: Dice, ground: Ground, at_s: float | None) -> dict[str, Any]:
        return {"factor": dice.pick([1.5, 3.0, 10.0]), **self._until(dice, ground, at_s)}


class TornWrite(OfDisks):
    """``cluster.faults.torn_write``."""

    name = "torn_write"

    def _figures(self, dice: Dice, ground: Ground, at_s: float | None) -> dict[str, Any]:
        return {"writes": dice.pick([1, 2, 5], [4, 1, 1])}


class Preempt(OfDisks):
    """``cluster.faults.preempt``: of any task of such a workload, also of the chief now and then."""

    name = "preempt"

    def draw(self, dice: Dice, ground: Ground) -> list[Disturbance]:
        if not ground.disks:
            return []
        roles = [ground.roles.get("worker", ()), ground.roles.get("server", ()), ground.roles.get("chief", ())]
        tasks = dice.pick([tasks or ground.disks for tasks in roles], [5, 3, 0.5])
        return [self._one(dice, ground, task) for task in dice.some(list(tasks), dice.pick([1, 2]))]

    def _figures(self, dice: Dice, ground: Ground, at_s: float | None) -> dict[str, Any]:
        notice_s = dice.pick([dice.log_real(0.05, 2.0) * dice.pick(ground.scales_s), dice.real(0.01, 0.5) * ground.length_s])
        back_s = dice.pick([None, 0.0, dice.log_real(0.05, 2.0) * dice.pick(ground.scales_s)])
        return {"notice": max(notice_s, 1e-9), "restart_after": back_s}

    def over_s(self, disturbance: Disturbance) -> float:
        return (disturbance.at_s or 0.0) + disturbance.figures["notice"] + (disturbance.figures["restart_after"] or 0.0)
