"""Which variables the replicas average that take steps of their own: those that are trained, and that a program can still reach.

Those that have died go along in the first average, as the collector takes its time, and wherever launched mains average: what one main has
dropped another may still have.
"""

from __future__ import annotations

from simdist.strategies.synchronous.outer_steps import is_trained
from simdist.strategies.synchronous.protocols import SteppingStrategy
from simdist.variables.reachability import KnownVariable
from simdist.variables.variable import Variable

__all__ = ["AveragedVariables"]


class AveragedVariables:
    """The variables that differ among the replicas. They are looked for when there are new ones, and not kept alive."""

    def __init__(self) -> None:
        self._known: list[KnownVariable[Variable]] = []
        self._num_made = 0

    def are_outdated(self, strategy: SteppingStrategy) -> bool:
        """Whether there are new ones since the last time."""
        num_before, self._num_made = self._num_made, strategy.known_variables.num_made
        return num_before < self._num_made and any(map(_differs, strategy.known_variables.made_after(num_before)))

    def find(self, strategy: SteppingStrategy) -> None:
        """Find them anew. What holds those of before has to be dropped first."""
        only_living = bool(self._known) and not strategy.launched
        if only_living:
            strategy.known_variables.reachable()  # whenever the collector came by before
        known = [one for one in strategy.known_variables.known() if _differs(one.present())]
        self._known = [one for one in known if one.living() is not None] if only_living else known

    @property
    def known(self) -> list[KnownVariable[Variable]]:
        """What there is of the variables, as of the last time."""
        return list(self._known)

    def present(self) -> list[Variable]:
        """The variables, as of the last time."""
        return [known.present() for known in self._known]


def _differs(variable: Variable) -> bool:
    return is_trained(variable) and variable.beginning is None and variable.placement.spread == "replicas"
