"""Crashes: a task's process dies, with connections reset or in silence, and restarts or does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from simdist.chaos.dice import Dice
from simdist.chaos.kinds.base import Ground, Kind, trigger_of
from simdist.chaos.scenarios import Disturbance

if TYPE_CHECKING:
    from simdist.chaos.stage import Stage

__all__ = ["Crash", "LoseHost"]

MOST = 5


class Crash(Kind):
    """``cluster.faults.crash``: alone, close together, in the moment of another's restart, before the first line of a main."""

    name = "crash"
    share = 0.9
    odds: ClassVar[dict[str, float]] = {"worker": 0.95, "server": 0.2, "chief": 0.05}
    """Whether tasks of a role are hit in a scenario."""

    def draw(self, dice: Dice, ground: Ground) -> list[Disturbance]:
        tasks = self._targets(dice, ground)
        never, always = dice.pick([(0.0, 0.0), (1.0, 0.0), (0.3, 0.2)], [5, 1, 3])
        drawn: list[Disturbance] = []
        while len(drawn) < MOST and (not drawn or dice.chance(0.5)):
            task = dice.pick(tasks)
            back = None if dice.chance(never) else self._restart_after_s(dice, ground, dice.chance(always))
            drawn.append(self._placed(dice, ground, task, back, drawn))
        return drawn

    def _targets(self, dice: Dice, ground: Ground) -> list[str]:
        """Which roles this scenario hits at all, and few tasks of each, so that one is hit twice now and then."""
        roles = [role for role in ground.roles if ground.roles[role] and dice.chance(self.odds.get(role, 0.5))]
        return [task for role in roles or ["worker"] for task in dice.some(ground.roles[role], 4)]

    def _restart_after_s(self, dice: Dice, ground: Ground, at_once: bool) -> float:
        if at_once or dice.chance(0.15):
            return 0.0
        return dice.log_real(0.05, 2.0) * dice.pick(ground.scales_s)

    def _placed(self, dice: Dice, ground: Ground, task: str, back: float | None, earlier: list[Disturbance]) -> Disturbance:
        figures = {"restart_after": back}
        how = dice.pick(["anywhere", "moment", "start", "steps", "seen", "after another"], [5, 2, 0.7, 1, 1, 5 if earlier else 0])
        if how == "steps" and ground.steps.get(task):
            return Disturbance(self.name, task, after_steps=dice.whole(1, ground.steps[task]), figures=figures)
        if how == "seen" and earlier:
            return Disturbance(self.name, task, when=(dice.pick(["crash", "detect", "restart"]), 1), figures=figures)
        return Disturbance(self.name, task, at_s=self._second(dice, ground, how, earlier), figures=figures)

    def _second(self, dice: Dice, ground: Ground, how: str, earlier: list[Disturbance]) -> float:
        timed = [other for other in earlier if other.at_s is not None]
        if how == "after another" and timed:
            other = dice.pick(timed)
            assert other.at_s is not None
            back = other.figures["restart_after"]
            if back is not None and dice.chance(0.3):
                return other.at_s + back  # in the very moment of its restart
            return other.at_s + dice.real(0.0, 2.0) * dice.pick(ground.scales_s)
        if how == "moment" and ground.moments_s:
            return dice.pick(ground.moments_s)
        return 0.0 if how == "start" else dice.real(0.0, 1.0) * ground.length_s

    def plan(self, stage: Stage, disturbance: Disturbance) -> Callable[[], bool]:
        fault = getattr(stage.cluster.faults, self.name)(disturbance.task, **trigger_of(disturbance), **disturbance.figures)
        return lambda: fault.fired

    def over_s(self, disturbance: Disturbance) -> float:
        return (disturbance.at_s or 0.0) + (disturbance.figures.get("restart_after") or 0.0)


class LoseHost(Crash):
    """``cluster.faults.lose_host``: as a crash, but of workers and servers only, and no connection is reset."""

    name = "lose_host"
    share = 0.25
    odds: ClassVar[dict[str, float]] = {"worker": 0.95, "server": 0.2, "chief": 0.0}
