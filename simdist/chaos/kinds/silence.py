"""Silent failures: a task is paused, or messages between two sides are lost, and no task is notified.

How long it lasts decides what can be seen of it: less than a latency, a part of a step, longer than it takes to be noticed, for ever.
In a scenario either all of them end, and every task that can recover must, or any may last for ever.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from simdist.chaos.dice import Dice
from simdist.chaos.kinds.base import Ground, Kind, trigger_of
from simdist.chaos.scenarios import Disturbance

if TYPE_CHECKING:
    from simdist.chaos.stage import Stage

__all__ = ["Partition", "Pause"]

MOST = 3


class Silence(Kind):
    """The common part of both: when it begins and how long it lasts."""

    def draw(self, dice: Dice, ground: Ground) -> list[Disturbance]:
        for_ever = dice.pick([0.0, 0.4], [3, 1])
        drawn: list[Disturbance] = []
        while len(drawn) < MOST and (not drawn or dice.chance(0.4)):
            one = self._one(dice, ground, for_ever, drawn)
            if one is not None:
                drawn.append(one)
            elif not drawn:
                break
        return drawn

    @abstractmethod
    def _one(self, dice: Dice, ground: Ground, for_ever: float, earlier: list[Disturbance]) -> Disturbance | None:
        """One more disturbance; None where no task can be hit."""

    def _placed(self, dice: Dice, ground: Ground, task: str, for_ever: float, earlier: list[Disturbance]) -> Disturbance:
        """Somewhere in the run, in the moment of something, from a step on, or shortly after another."""
        how = dice.pick(["anywhere", "moment", "start", "steps", "after another"], [5, 3, 0.5, 1, 3 if earlier else 0])
        lasts_s = None if dice.chance(for_ever) else self._lasts_s(dice, ground)
        if how == "steps" and ground.steps.get(task):
            until = None if lasts_s is None else ground.length_s + lasts_s
            return Disturbance(self.name, task, after_steps=dice.whole(1, ground.steps[task]), figures={"until": until})
        at_s = self._second(dice, ground, how, earlier)
        return Disturbance(self.name, task, at_s, figures={"until": None if lasts_s is None else at_s + lasts_s})

    def _second(self, dice: Dice, ground: Ground, how: str, earlier: list[Disturbance]) -> float:
        if how == "after another" and earlier:
            other = dice.pick(earlier)
            ends_s = other.figures["until"]
            if ends_s is not None and dice.chance(0.3):
                return ends_s
            return (other.at_s or 0.0) + dice.real(0.0, 2.0) * dice.pick(ground.scales_s)
        if how == "moment" and ground.moments_s:
            return dice.pick(ground.moments_s)
        return 0.0 if how == "start" else dice.real(0.0, 1.0) * ground.length_s

    def _lasts_s(self, dice: Dice, ground: Ground) -> float:
        steps = max([1, *ground.steps.values()])
        short_s = max(1e-9, dice.real(0.1, 0.9) * ground.scales_s[0])
        within_s = dice.real(0.1, 0.9) * ground.length_s / steps
        return dice.pick([short_s, within_s, dice.real(0.5, 4.5), dice.real(5.5, 12.0), dice.real(25.0, 70.0)], [2, 3, 2, 4, 2])

    def over_s(self, disturbance: Disturbance) -> float:
        return max(disturbance.at_s or 0.0, disturbance.figures.get("until") or 0.0)


class Pause(Silence):
    """``cluster.faults.pause``."""

    name = "pause"
    share = 0.3

    def _one(self, dice: Dice, ground: Ground, for_ever: float, earlier: list[Disturbance]) -> Disturbance | None:
        tasks = [*ground.roles.get("worker", ()), *ground.roles.get("server", ())]
        if ground.roles.get("server") and dice.chance(0.25):
            tasks = list(ground.roles["server"])
        task = dice.pick([d.task for d in earlier]) if earlier and dice.chance(0.3) else dice.pick(tasks)
        return self._placed(dice, ground, task, for_ever, earlier)

    def plan(self, stage: Stage, disturbance: Disturbance) -> Callable[[], bool]:
        fault = stage.cluster.faults.pause(disturbance.task, **trigger_of(disturbance), **disturbance.figures)
        return lambda: fault.fired


class Partition(Silence):
    """``cluster.faults.partition``: one against one or against many, both ways or one."""

    name = "partition"
    share = 0.3

    def _one(self, dice: Dice, ground: Ground, for_ever: float, earlier: list[Disturbance]) -> Disturbance | None:
        chiefs = ground.roles.get("chief", ()) if dice.chance(0.4) else ()
        everybody = [*chiefs, *ground.roles.get("worker", ()), *ground.roles.get("server", ())]
        if len(everybody) < 2:
            everybody = [*ground.roles.get("chief", ()), *everybody]
        if len(everybody) < 2:
            return None
        one = dice.pick(everybody)
        others = dice.some([task for task in everybody if task != one], dice.pick([1, 3, 20], [3, 2, 1]))
        a, b = ([one], others) if dice.chance(0.7) else (others, [one])
        placed = self._placed(dice, ground, a[0], for_ever, earlier)
        return replace(placed, figures={**placed.figures, "a": a, "b": b, "one_way": dice.chance(0.4)})

    def plan(self, stage: Stage, disturbance: Disturbance) -> Callable[[], bool]:
        fault = stage.cluster.faults.partition(**trigger_of(disturbance), **disturbance.figures)
        return lambda: fault.fired

    def among(self, disturbance: Disturbance, tasks: set[str]) -> Disturbance | None:
        sides = {name: [task for task in disturbance.figures[name] if task in tasks] for name in ("a", "b")}
        if not all(sides.values()):
            return None
        return replace(disturbance, task=sides["a"][0], figures={**disturbance.figures, **sides})

    def smaller(self, disturbance: Disturbance) -> Iterator[Disturbance]:
        for name in ("a", "b"):
            side = disturbance.figures[name]
            for task in side if len(side) > 1 else ():
                less = self.among(disturbance, {*disturbance.figures["a"], *disturbance.figures["b"]} - {task})
                assert less is not None
                yield less
