"""What parameter servers must hold after rounds: each changes them by the average of its gradients, and no step reads what is too old.

A run is replayed with numpy in float64 from two things: which closures the coordinator has counted for each round, and the loss of each
closure, which says what its step had read. Nothing else is taken from the run; so faults, and what was done about them, cannot matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product

import numpy as np
import pytest

from simdist.coordinator.bounded import BoundedStaleness
from simdist.runtime.serving import Round
from tests.properties.replayed_updates import SHAPES, Arrays, Training, gradients

__all__ = ["RoundReplay", "counted_rounds"]


@contextmanager
def counted_rounds() -> Iterator[list[Round]]:
    """The rounds that coordinators call complete meanwhile, in their order."""
    rounds: list[Round] = []
    complete_rounds = BoundedStaleness.complete_rounds

    def counted(policy: BoundedStaleness, is_drained: bool) -> list[Round]:
        found = complete_rounds(policy, is_drained)
        rounds.extend(found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BoundedStaleness, "complete_rounds", counted)
        yield rounds


class RoundReplay:
    """The rounds of a run, computed again.

    Args:
        training: the run.
        rounds: which closures count for each.
        staleness: how many rounds may be missing in what a step reads.

    Attributes:
        held: values of the variables after each round, from the first values on.
        missing: of each closure, by how much its loss differs from that of the versions that explain it best.
        behind: of each closure, the rounds that were missing on each server in what it has read.
    """

    def __init__(self, training: Training, rounds: Sequence[Round], staleness: int) -> None:
        self.training = training
        self.staleness = staleness
        self.parts = list(training.parts())
        self.servers = list(dict.fromkeys(server for *_, server in self.parts))
        self.held: list[Arrays] = [[value.astype(float) for value in training.initial]]
        self.missing: dict[int, float] = {}
        self.behind: dict[int, tuple[int, ...]] = {}
        self._slots = [np.zeros((2, *shape)) for shape in SHAPES]
        for clock, one in enumerate(rounds):
            assert one.clock == clock, "a round is out of order"
            self._apply([self._gradients(clock, closure) for closure in one.closures])

    def _gradients(self, clock: int, closure: int) -> Arrays:
        """Those of the versions that explain the loss of a closure, out of all that it may have read."""
        assert closure not in self.missing, "a closure counts twice"
        oldest = min(self.staleness, clock)
        loss = self.training.losses[closure]
        tries = {behind: gradients(self._read(clock, behind), closure) for behind in product(range(oldest + 1), repeat=len(self.servers))}
        near = [behind for behind, (known, _) in tries.items() if abs(known - loss) < 2e-5 * max(1.0, loss)]
        # of those that explain it the one with the most equal servers: a bias of another version hardly shows in a loss
        best = min(near or tries, key=lambda behind: (len(set(behind)) if near else 0, abs(tries[behind][0] - loss)))
        self.missing[closure], self.behind[closure] = abs(tries[best][0] - loss), best
        return tries[best][1]

    def _read(self, clock: int, behind: Sequence[int]) -> Arrays:
        """Variables of which each server has another version."""
        whole = [np.zeros(shape) for shape in SHAPES]
        versions = dict(zip(self.servers, behind, strict=True))
        for number, begin, end, server in self.parts:
            whole[number][begin:end] = self.held[clock - versions[server]][number][begin:end]
        return whole

    def _apply(self, found: Sequence[Arrays]) -> None:
        changed: Arrays = []
        for number, value in enumerate(self.held[-1]):
            mean = np.mean([each[number] for each in found], axis=0)
            new, self._slots[number] = self.training.rule.apply(value, self._slots[number], mean, len(self.held))
            changed.append(new)
        self.held.append(changed)
