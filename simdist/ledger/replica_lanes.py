"""Lanes of replicas: the equal calls of the replicas of a step as one entry.

The replicas of a synchronous step call the same kernels, each on its own rows. Such calls are collected until all
replicas have made them; then the ledger notes *one* entry, whose kernel runs the calls one after the other and gives their
results as a stack: one array [lanes, ...] for each result. What a replica gets is a *lane* of that stack. What reads all
lanes in order (a sum over the replicas, the next call of all of them) takes the stack as it is; a lane that is read
by itself is cut out.

Numbers: class E1. XLA may give a kernel other bits in a loop than on its own. So a kernel is tried before it is mapped
(mapped.py), and one whose bits differ is called for each lane by itself. Calls that are few, that turn out not to be equal, or
that are read before all have come, are noted one by one: the bits are the same. With numerics="vmap" the calls are one batched
kernel, and nothing is tried: class E2.
"""

from __future__ import annotations

from collections.abc import Sequence

from simdist.ledger.entry import Site, Where
from simdist.ledger.equal_calls import EqualCalls, LaneLedger
from simdist.program.arrays import Arrays
from simdist.program.step_iterator import StepBatch
from simdist.program.values import Bundle

__all__ = ["ReplicaLanes"]

ON_THEIR_OWN = ("off", "shard_map")
"""Where each call is noted by itself: "shard_map" finds equal calls itself, and spreads them over devices."""


class ReplicaLanes:
    """The calls of the replicas of one step.

    Args:
        ledger: notes them.
        count: how many replicas there are.
    """

    def __init__(self, ledger: LaneLedger, count: int) -> None:
        self.ledger = ledger
        self.count = count
        self._counts: list[dict[Site, int]] = [{} for _ in range(count)]
        self._calls: dict[tuple[Site, int], EqualCalls] = {}

    def call(
        self, lane: int, site: Site, inputs: Sequence[Bundle], batch: StepBatch | None = None, host: Arrays = (), where: Where = None
    ) -> Sequence[Bundle]:
        """A replica's call of a kernel; as `Ledger.call`."""
        if self.count == 1 or self.ledger.numerics in ON_THEIR_OWN or site.kernel.runs_at_once:
            return self.ledger.call(site, inputs, batch, host, where)
        counts = self._counts[lane]
        number = counts[site] = counts.get(site, -1) + 1
        calls = self._calls.get((site, number))
        if calls is None:
            calls = self._calls[site, number] = EqualCalls(self.ledger, site, self.count)
        outputs = calls.add(lane, list(inputs), batch, host, where)
        if calls.is_noted and len(calls.contributions) == self.count:
            del self._calls[site, number]
        return outputs

    def close(self) -> None:
        """Note what is left, for which some replicas have not come."""
        for calls in self._calls.values():
            calls.note_singly()
        self._calls.clear()
