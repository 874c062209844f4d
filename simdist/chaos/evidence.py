"""The evidence of an examination: the runs of one scenario, and other facts about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from simdist.chaos.runs import ScenarioRun
from simdist.chaos.scenarios import Scenario

__all__ = ["Evidence", "Invariant", "Print"]


@dataclass(frozen=True)
class Print:
    """The fingerprint of a run: the digest of its trace, and the digits of its numbers."""

    digest: str
    bits: str

    @classmethod
    def of(cls, run: ScenarioRun) -> Print:
        return cls(run.digest, run.bits)


@dataclass
class Evidence:
    """The runs of one scenario.

    Args:
        scenario: which.
        run: its run.
        calm: a run in which nothing went wrong; that itself where nothing does.
        again: the fingerprint of a second run in this process; None where there was none.
        elsewhere: that of a run in another process; None where there was none.
        plans: fingerprints of runs by other plans and without looks, by plan.
    """

    scenario: Scenario
    run: ScenarioRun
    calm: ScenarioRun
    again: Print | None = None
    elsewhere: Print | None = None
    plans: dict[str, Print] = field(default_factory=dict[str, Print])

    @property
    def ended_well(self) -> bool:
        return self.run.error is None


@dataclass(frozen=True)
class Invariant:
    """A condition that must hold in every scenario.

    Args:
        name: a short word for it.
        says: the sentence.
        broken: what is wrong in the light of some evidence; nothing where all is well or where it does not apply.
    """

    name: str
    says: str
    broken: Callable[[Evidence], Iterable[str]]
