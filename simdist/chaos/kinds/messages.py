"""What befalls messages between two sides: they are lost by chance, late, or come twice; or the way between them is slow.

Where messages are lost or late, how long that lasts is drawn as for a partition. What only repeats them, or makes them slow, may last
for the whole run: it excuses nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from simdist.chaos.dice import Dice
from simdist.chaos.kinds.base import Ground, trigger_of
from simdist.chaos.kinds.silence import Silence
from simdist.chaos.scenarios import Disturbance
from simdist.faults.messages import CHOICES

if TYPE_CHECKING:
    from simdist.chaos.stage import Stage

__all__ = ["Delay", "Drop", "Duplicate", "SlowLink"]


class Messages(Silence):
    """What the four have in common: two sides, a kind of messages and a probability."""

    share = 0.2
    chances = (1.0, 0.5, 0.1)

    def _one(self, dice: Dice, ground: Ground, for_ever: float, earlier: list[Disturbance]) -> Disturbance | None:
        everybody = [task for role in ("chief", "worker", "server") for task in ground.roles.get(role, ())]
        if len(everybody) < 2:
            return None
        one = dice.pick(everybody)
        others = dice.some([task for task in everybody if task != one], dice.pick([1, 3, 20], [3, 2, 1]))
        source, target = ([one], others) if dice.chance(0.5) else (others, [one])
        placed = self._placed(dice, ground, source[0], for_ever, earlier)
        return replace(placed, figures={**placed.figures, "source": source, "target": target, **self._figures(dice, ground)})

    @abstractmethod
    def _figures(self, dice: Dice, ground: Ground) -> dict[str, Any]:
        """What the kind needs besides."""

    def _chosen(self, dice: Dice) -> dict[str, Any]:
        """Which messages, and how many of them."""
        return {"kind": dice.pick(CHOICES) if dice.chance(0.6) else None, "probability": dice.pick(self.chances)}

    def plan(self, stage: Stage, disturbance: Disturbance) -> Callable[[], bool]:
        method = getattr(stage.cluster.faults, self.name)
        fault = method(**trigger_of(disturbance), **disturbance.figures)
        return lambda: fault.fired

    def over_s(self, disturbance: Disturbance) -> float:
        late_s = disturbance.figures.get("seconds", 0.0) + disturbance.figures.get("spread", 0.0)
        return super().over_s(disturbance) + late_s

    def among(self, disturbance: Disturbance, tasks: set[str]) -> Disturbance | None:
        sides = {name: [task for task in disturbance.figures[name] if task in tasks] for name in ("source", "target")}
        if not all(sides.values()):
            return None
        return replace(disturbance, task=sides["source"][0], figures={**disturbance.figures, **sides})

    def smaller(self, disturbance: Disturbance) -> Iterator[Disturbance]:
        figures = disturbance.figures
        for name in ("source", "target"):
            for task in figures[name] if len(figures[name]) > 1 else ():
                less = self.among(disturbance, {*figures["source"], *figures["target"]} - {task})
                assert less is not None
                yield less
        if figures.get("probability", 1.0) != 1.0:
            yield replace(disturbance, figures={**figures, "probability": 1.0})


class Drop(Messages):
    """``cluster.faults.drop``."""

    name = "drop"

    def _figures(self, dice: Dice, ground: Ground) -> dict[str, Any]:
        return self._chosen(dice)


class Delay(Messages):
    """``cluster.faults.delay``: by a part of a latency, of the run, or by what is long enough to be noticed."""

    name = "delay"

    def _figures(self, dice: Dice, ground: Ground) -> dict[str, Any]:
        seconds = dice.pick([dice.real(0.1, 2.0) * ground.scales_s[0], dice.real(0.01, 0.5) * ground.length_s, dice.real(0.5, 12.0)])
        spread = dice.pick([0.0, seconds, dice.real(0.0, 10.0)], [2, 2, 1])
        return {**self._chosen(dice), "seconds": min(seconds, 60.0), "spread": min(spread, 60.0)}


class Duplicate(Messages):
    """``cluster.faults.duplicate``."""

    name = "duplicate"

    def _figures(self, dice: Dice, ground: Ground) -> dict[str, Any]:
        return self._chosen(dice)


class SlowLink(Messages):
    """``cluster.faults.slow_link``."""

    name = "slow_link"

    def _figures(self, dice: Dice, ground: Ground) -> dict[str, Any]:
        return {"bandwidth_factor": dice.pick([1.0, 3.0, 100.0]), "latency_factor": dice.pick([1.0, 2.0, 50.0])}
