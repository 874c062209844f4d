"""Slowdowns: a task's device is slower for a while, or from some moment on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from simdist.chaos.dice import Dice
from simdist.chaos.kinds.base import Ground, Kind, trigger_of
from simdist.chaos.scenarios import Disturbance

if TYPE_CHECKING:
    from simdist.chaos.stage import Stage

__all__ = ["Slow"]


class Slow(Kind):
    """``cluster.faults.slow``: several of them on one task overlap as often as not."""

    name = "slow"
    share = 0.35

    def draw(self, dice: Dice, ground: Ground) -> list[Disturbance]:
        tasks = dice.some([*ground.roles.get("worker", ()), *ground.roles.get("server", ())], 2)
        drawn: list[Disturbance] = []
        while len(drawn) < 4 and (not drawn or dice.chance(0.5)):
            at_s = dice.real(0.0, 0.8) * ground.length_s
            until = None if dice.chance(0.3) else at_s + dice.real(0.05, 1.0) * ground.length_s
            figures = {"factor": dice.pick([1.5, 2.0, 3.0, 10.0]), "until": until}
            drawn.append(Disturbance(self.name, dice.pick(tasks), at_s=at_s, figures=figures))
        return drawn

    def plan(self, stage: Stage, disturbance: Disturbance) -> Callable[[], bool]:
        fault = stage.cluster.faults.slow(disturbance.task, **trigger_of(disturbance), **disturbance.figures)
        return lambda: fault.fired

    def over_s(self, disturbance: Disturbance) -> float:
        return max(disturbance.at_s or 0.0, disturbance.figures.get("until") or 0.0)
