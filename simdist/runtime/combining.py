"""The numbers of an exchange between replicas: which kernel makes what each of them gets.

Sums are added in the order of the collective's schedule, all arrays of one dtype in one piece, as they travel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from simdist.collectives.base import Schedule
from simdist.collectives.numbers import combined_packs
from simdist.program.entry import Site
from simdist.program.exchange import Exchange
from simdist.program.kernels import kernel_of
from simdist.program.ledger import Ledger
from simdist.program.values import Aval, Bundle

__all__ = ["Combiner"]


class Combiner:
    """Makes the results of exchanges.

    Args:
        ledger: notes them.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        # By the identity of the schedule, which is kept with the site: to compare thousands of transfers in each step takes longer.
        self._sites: dict[tuple[Any, ...], tuple[Schedule | None, Site]] = {}

    def results(self, exchange: Exchange, schedule: Schedule | None, given: Sequence[Bundle], scale: float, where: Any) -> list[Bundle]:
        """What each replica gets.

        Args:
            exchange: what the replicas meet for.
            schedule: in whose order sums are added; None where nothing is added.
            given: the bundle of each replica that takes part, by rank.
            scale: factor on sums; 1 unless some replicas were dropped.
            where: task, step and second, for error messages.
        """
        if exchange.kind == "broadcast":
            return [given[0]] * len(given)
        key = (exchange.kind, id(schedule), tuple([bundle.avals for bundle in given]), scale)
        if key not in self._sites:
            self._sites[key] = schedule, self._site(exchange, schedule, [bundle.avals for bundle in given], scale)
        outputs = list(self.ledger.call(self._sites[key][1], given, None, (), where))
        return outputs if exchange.kind == "reduce_scatter" else outputs * len(given)

    def _site(self, exchange: Exchange, schedule: Schedule | None, given: list[tuple[Aval, ...]], scale: float) -> Site:
        ranks, count = len(given), len(given[0])

        def run(*arrays: Any) -> list[Any]:
            if exchange.kind == "all_gather":
                return list(arrays)
            assert schedule is not None
            sums = added(schedule, [arrays[rank * count : (rank + 1) * count] for rank in range(ranks)])
            return sums if scale == 1 else [total * jnp.asarray(scale, total.dtype) for total in sums]

        kernel = kernel_of(f"{exchange.kind} {exchange.label}".strip(), run, [aval for avals in given for aval in avals])
        writes = [kernel.out_avals]
        if exchange.kind == "reduce_scatter":
            share = len(kernel.out_avals) // ranks
            writes = [kernel.out_avals[rank * share : (rank + 1) * share] for rank in range(ranks)]
        return self.ledger.site(kernel, given, writes)


def added(schedule: Schedule, parts: Sequence[Sequence[Any]]) -> list[Any]:
    """The sums of the ranks' arrays: those of one dtype are laid end to end, as they travel.

    Args:
        schedule: of the reduction.
        parts: for each rank its arrays.
    """
    sums: list[Any] = [None] * len(parts[0])
    by_dtype: dict[Any, list[int]] = {}
    for number, array in enumerate(parts[0]):
        by_dtype.setdefault(array.dtype, []).append(number)
    for numbers in by_dtype.values():
        totals = combined_packs(schedule, [[rank[n] for n in numbers] for rank in parts])
        for n, total in zip(numbers, totals, strict=True):
            sums[n] = total
    return sums
