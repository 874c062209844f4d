"""A scenario from one integer seed and its number in a campaign.

It is drawn in two steps. `calm` draws a cluster and a workload; once that has run undisturbed, it is known how long it takes and
when things happen in it, so that `disturbed` can place what goes wrong where it hits. Every draw has a stream of its own, so
that a new kind or workload option shifts no other draw. Each kind is on or off for a whole scenario, and rates vary.
"""

from __future__ import annotations

from dataclasses import replace

from simdist.chaos.dice import Dice
from simdist.chaos.kinds import KINDS, Ground
from simdist.chaos.scenarios import Chips, Disturbance, Scenario, Wires
from simdist.chaos.workloads import WORKLOADS, Workload

__all__ = ["calm", "disturbed"]

MOST_WORKERS_WITH_NUMBERS = 4  # each number of replicas has programs of its own to compile


def calm(seed: int, number: int, workload: str | None = None, timing_only: float = 0.875) -> Scenario:
    """A scenario without disturbances.

    Args:
        seed: of the campaign.
        number: of the scenario.
        workload: its name; None draws one.
        timing_only: share of the scenarios that compute no numbers; default 7 of 8.

    Example:
        >>> calm(7, 0) == calm(7, 0), calm(7, 0) == calm(7, 1)
        (True, False)
    """
    dice = Dice(seed, number)
    numbers = not dice.part("numbers").chance(timing_only)
    known = [WORKLOADS[workload]] if workload else [each for each in WORKLOADS.values() if numbers or not each.needs_numbers]
    chosen = dice.part("workload").pick(known, [each.weight for each in known])
    numbers = numbers or chosen.needs_numbers
    scenario = Scenario(
        chosen.name,
        workers=_workers(dice.part("workers"), chosen, numbers),
        servers=dice.part("servers").pick([1, 2, 3, 4], [4, 3, 1, 1]),
        wires=_wires(dice.part("wires")),
        chips=_chips(dice.part("chips")),
        numerics=dice.part("plan").pick(["deferred", "eager", "loop", "replay"], [10, 3, 3, 1]) if numbers else "off",
        seed=dice.number(),
    )
    return replace(scenario, options=chosen.draw(dice.part("options"), scenario))


def disturbed(scenario: Scenario, ground: Ground, seed: int, number: int) -> Scenario:
    """The scenario with disturbances, and reads at random observation points.

    Args:
        scenario: from `calm`.
        ground: what its run has shown.
        seed, number: as for `calm`.
    """
    dice = Dice(seed, number)
    drawn: list[Disturbance] = []
    for kind in KINDS.values():
        own = dice.part("kind", kind.name)
        if own.chance(kind.share) and (scenario.has_numbers or not kind.needs_numbers):
            drawn += kind.draw(own.part("draw"), ground)
    reads = dice.part("reads")
    numbers = range(1, ground.observations + 1)
    chance = reads.pick([0.0, 0.2, 1.0])
    chosen = tuple(number for number in numbers if reads.chance(chance)) if scenario.has_numbers else ()
    return replace(scenario, disturbances=tuple(drawn), reads=chosen)


def _workers(dice: Dice, workload: Workload, numbers: bool) -> int:
    most = min(workload.most_workers, MOST_WORKERS_WITH_NUMBERS if numbers else 20)
    few = dice.pick([1, 2, 3, 4, 5], [2, 4, 5, 3, 2])
    return min(most, few if dice.chance(0.9) else dice.whole(6, 20))


def _wires(dice: Dice) -> Wires:
    if dice.chance(0.4):
        return Wires()
    racks = dice.pick([0, 1, 2, 4], [5, 1, 1, 1])
    return Wires(
        dice.log_real(1e5, 1e10), dice.pick([0.0, dice.log_real(1e-6, 1e-2)], [1, 9]), racks, dice.pick([1.0, 4.0]) if racks else 1.0
    )


def _chips(dice: Dice) -> Chips:
    overhead_s = 20e-6 if dice.chance(0.5) else dice.log_real(1e-6, 1.0)
    jitter = dice.pick(["none", "uniform", "lognormal", "exponential"], [5, 2, 2, 1])
    spread = {"uniform": 0.5, "lognormal": 0.3}.get(jitter, 0.0)
    return Chips(overhead_s, jitter, spread)
