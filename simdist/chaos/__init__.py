"""The search for failures: random scenarios, invariants that must hold in each, and the shortest program that breaks one.

    scenarios.py    a scenario as data                     kinds/        what can go wrong
    drawing.py      a scenario from a seed and a number    workloads/    what runs
    runs.py         one run of it                          invariants/   what must hold
    examining.py    the runs that an examination needs     shrinking.py  the smallest scenario that still fails
    campaign.py     many scenarios, in child processes     reproduction.py  it as a program

``python -m simdist chaos --scenarios 2000 --seed 7`` runs a campaign.
"""

from __future__ import annotations

from simdist.chaos.examining import Finding, examine
from simdist.chaos.runs import ScenarioRun, run
from simdist.chaos.scenarios import Chips, Disturbance, Scenario, Wires

__all__ = ["Chips", "Disturbance", "Finding", "ScenarioRun", "Scenario", "Wires", "examine", "run"]
