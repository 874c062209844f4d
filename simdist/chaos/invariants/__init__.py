"""Invariants of every scenario. To add one: an entry in one of the lists, or a file with a list of its own here."""

from __future__ import annotations

from simdist.chaos.evidence import Evidence, Invariant
from simdist.chaos.invariants.checkpoints import CHECKPOINTS
from simdist.chaos.invariants.closures import CLOSURES
from simdist.chaos.invariants.collectives import COLLECTIVES
from simdist.chaos.invariants.disks import DISKS
from simdist.chaos.invariants.ends import ENDS
from simdist.chaos.invariants.engine import ENGINE
from simdist.chaos.invariants.faults import FAULTS
from simdist.chaos.invariants.numbers import NUMBERS
from simdist.chaos.invariants.servers import SERVERS
from simdist.chaos.invariants.tasks import TASKS

__all__ = ["COLLECTED", "INVARIANTS", "Evidence", "Invariant"]

COLLECTED = "closed-is-collected"
"""A closed cluster that nobody refers to is collected: the one that is checked when the evidence is gone."""

INVARIANTS: dict[str, Invariant] = {
    invariant.name: invariant
    for invariant in (*ENDS, *CLOSURES, *NUMBERS, *TASKS, *FAULTS, *ENGINE, *SERVERS, *DISKS, *CHECKPOINTS, *COLLECTIVES)
}
