"""Collectives: algorithms by which ranks combine or distribute their data, one file for each.

    base.py                what a schedule is, and what an algorithm
    checking.py            the rules that every schedule keeps
    order.py               which additions a schedule makes
    numbers.py             the numbers: with numpy step by step, with JAX at once
    ring.py ...            all-reduce: ring, recursive doubling, Rabenseifner, binomial, double tree, hierarchical copy,
                           reduction to one; folding.py for numbers of ranks that are no power of two
    reduce_scatter.py ...  the other collectives: reduce-scatter, all-gather, broadcast, all-to-all
    choose.py              the default algorithm of an all-reduce; in_racks.py where uplinks are shared
    bus_bandwidth.py       how well the network was used
    packing.py             many small tensors in a few collectives
    compression.py ...     fewer bytes: fp16, top-k, 1-bit, PowerSGD

Taught in lesson 03a.
"""

from __future__ import annotations

from typing import cast

from simdist.arguments import shown
from simdist.collectives.all_gather import BRUCK_ALL_GATHER, RECURSIVE_DOUBLING_ALL_GATHER, RING_ALL_GATHER
from simdist.collectives.all_to_all import PAIRWISE_ALL_TO_ALL
from simdist.collectives.base import Algorithm, Schedule, Transfer
from simdist.collectives.binomial import BINOMIAL, BINOMIAL_REDUCE
from simdist.collectives.broadcast import BINOMIAL_BROADCAST
from simdist.collectives.bus_bandwidth import bus_bandwidth
from simdist.collectives.checking import check_schedule
from simdist.collectives.choose import choose, predicted_seconds
from simdist.collectives.compression import Compressor, Fp16, NoCompression, OneBit, TopK
from simdist.collectives.double_tree import DOUBLE_TREE, double_tree
from simdist.collectives.hierarchical_copy import HIERARCHICAL_COPY
from simdist.collectives.numbers import combined, run_schedule, run_steps
from simdist.collectives.packing import group_by_size, pack_gradients, split_in_packs
from simdist.collectives.power_sgd import PowerSGD
from simdist.collectives.rabenseifner import RABENSEIFNER
from simdist.collectives.recursive_doubling import RECURSIVE_DOUBLING
from simdist.collectives.reduce_scatter import RING_REDUCE_SCATTER
from simdist.collectives.reduction_to_one import REDUCTION_TO_ONE
from simdist.collectives.ring import RING
from simdist.errors import NotFoundError, did_you_mean

__all__ = [
    "ALGORITHMS",
    "ALL_GATHER",
    "ALL_REDUCE",
    "ALL_TO_ALL",
    "Algorithm",
    "BROADCAST",
    "Compressor",
    "Fp16",
    "NoCompression",
    "OneBit",
    "PowerSGD",
    "REDUCE",
    "REDUCE_SCATTER",
    "Schedule",
    "TopK",
    "Transfer",
    "algorithm",
    "bus_bandwidth",
    "check_schedule",
    "choose",
    "combined",
    "double_tree",
    "group_by_size",
    "pack_gradients",
    "predicted_seconds",
    "run_schedule",
    "run_steps",
    "split_in_packs",
]


def _by_name(*algorithms: Algorithm) -> dict[str, Algorithm]:
    return {algorithm.name: algorithm for algorithm in algorithms}


ALL_REDUCE = _by_name(RING, RECURSIVE_DOUBLING, RABENSEIFNER, BINOMIAL, DOUBLE_TREE, HIERARCHICAL_COPY, REDUCTION_TO_ONE)
REDUCE = _by_name(BINOMIAL_REDUCE)
REDUCE_SCATTER = _by_name(RING_REDUCE_SCATTER)
ALL_GATHER = _by_name(RING_ALL_GATHER, RECURSIVE_DOUBLING_ALL_GATHER, BRUCK_ALL_GATHER)
BROADCAST = _by_name(BINOMIAL_BROADCAST)
ALL_TO_ALL = _by_name(PAIRWISE_ALL_TO_ALL)

ALGORITHMS = {
    "all_reduce": ALL_REDUCE,
    "reduce": REDUCE,
    "reduce_scatter": REDUCE_SCATTER,
    "all_gather": ALL_GATHER,
    "broadcast": BROADCAST,
    "all_to_all": ALL_TO_ALL,
}


def algorithm(kind: str, name: str) -> Algorithm:
    """An algorithm by its name.

    Args:
        kind: of the collective, such as "all_reduce".
        name: of the algorithm, such as "recursive doubling"; case does not matter, and "_" and "-" are as good as a space.

    Raises:
        NotFoundError: an unknown kind or name.
        TypeError: no text.

    Example:
        >>> algorithm("all_reduce", "Recursive-Doubling").name
        'recursive doubling'
        >>> algorithm("all_reduce", "rign")
        Traceback (most recent call last):
        simdist.errors.NotFoundError: No all_reduce is called 'rign'. Did you mean 'ring'? Known: 'ring', ...
    """
    for argument, word in (("kind", kind), ("name", name)):
        if not isinstance(cast("object", word), str):
            raise TypeError(f"{argument} is {shown(word)}; expected a word, such as algorithm('all_reduce', 'ring')")
    known_kind = kind.lower().replace("-", "_").replace(" ", "_")
    if known_kind not in ALGORITHMS:
        raise NotFoundError(f"No collective is called {kind!r}. {did_you_mean(known_kind, ALGORITHMS)}")
    known_name = name.lower().replace("-", " ").replace("_", " ")
    if known_name not in ALGORITHMS[known_kind]:
        raise NotFoundError(f"No {known_kind} is called {name!r}. {did_you_mean(known_name, ALGORITHMS[known_kind])}")
    return ALGORITHMS[known_kind][known_name]
