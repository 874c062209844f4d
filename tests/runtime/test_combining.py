"""The numbers of a collective: added in the order of the schedule, packed by dtype, made once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simdist.collectives import ALL_REDUCE, REDUCE, REDUCE_SCATTER
from simdist.program.collective import Collective
from simdist.program.values import Aval, aval_of
from simdist.runtime.combining import Combination, Combinations, added, disagreement

RANKS = 3
RING = ALL_REDUCE["ring"].schedule(RANKS)


def combination(kind: str, parts: list[list[Any]], schedule: Any = RING, scale: float = 1) -> Combination:
    own = tuple(aval_of(array) for array in parts[0])
    given = tuple(tuple(aval_of(array) for array in rank) for rank in parts)
    return Combinations().of(Collective(kind, own, own, RANKS), schedule, given, scale)


def results(made: Combination, parts: list[list[Any]]) -> list[np.ndarray]:
    assert made.kernel is not None
    return [np.asarray(array) for array in made.kernel.function(*[array for rank in parts for array in rank])]


def ring_sum(data: np.ndarray) -> np.ndarray:
    """Chunk c starts at rank c and is added up around the ring."""
    edges = [chunk * data.shape[1] // RANKS for chunk in range(RANKS + 1)]
    total = np.empty(data.shape[1], np.float32)
    starts = {t.chunks[0]: t.source for t in RING.transfers if t.step == 0}
    for chunk in range(RANKS):
        part = slice(edges[chunk], edges[chunk + 1])
        order = [(starts[chunk] + hop) % RANKS for hop in range(RANKS)]
        total[part] = (data[order[0], part] + data[order[1], part]) + data[order[2], part]
    return total


def test_a_sum_has_the_order_of_its_schedule_all_arrays_of_a_dtype_in_one_piece() -> None:
    data = np.random.default_rng(0).normal(size=(RANKS, 31)).astype(np.float32)
    counts = np.arange(RANKS * 2, dtype=np.int32).reshape(RANKS, 2)
    parts = [[data[rank, :10], counts[rank], data[rank, 10:].reshape(3, 7)] for rank in range(RANKS)]
    made = combination("all_reduce", parts)
    first, count, second = results(made, parts)
    expected = ring_sum(data)
    assert np.concatenate([first, second.reshape(-1)]).tobytes() == expected.tobytes()
    assert expected.tobytes() != data.sum(axis=0, dtype=np.float32).tobytes()
    assert count.tolist() == [6, 9]
    assert made.is_shared and made.schedule is RING


def test_a_scale_multiplies_sums_in_their_dtype() -> None:
    parts = [[np.float32([1, 2])] for _ in range(RANKS)]
    (total,) = results(combination("all_reduce", parts, scale=1.5), parts)
    assert (total.dtype, total.tolist()) == (np.float32, [4.5, 9])


def test_a_gather_gives_all_arrays_rank_by_rank_whatever_their_lengths() -> None:
    parts = [[np.full(rank + 1, rank, np.float32), np.int32(rank)] for rank in range(RANKS)]
    made = combination("all_gather", parts, None)
    assert [array.tolist() for array in results(made, parts)] == [[0], 0, [1, 1], 1, [2, 2, 2], 2]
    assert made.is_shared
    assert made.writes == (tuple(aval_of(array) for rank in parts for array in rank),)


def test_a_broadcast_computes_nothing() -> None:
    parts = [[np.float32(rank)] for rank in range(RANKS)]
    made = combination("broadcast", parts, None)
    assert made.kernel is None and made.is_shared and made.writes == ((Aval((), "float32"),),)


def test_a_reduce_scatter_gives_each_rank_its_share_of_the_sums() -> None:
    schedule = REDUCE_SCATTER["ring"].schedule(RANKS)
    parts = [[np.float32([rank, share]) for share in range(RANKS)] for rank in range(RANKS)]
    made = combination("reduce_scatter", parts, schedule)
    sums = results(made, parts)
    assert not made.is_shared and [len(avals) for avals in made.writes] == [1] * RANKS
    assert [total.tolist() for total in sums] == [[3, 0], [3, 3], [3, 6]]


def test_a_reduce_gives_the_first_rank_the_sums_and_the_others_zeros() -> None:
    parts = [[np.float32([rank, 1]), np.float32(rank)] for rank in range(RANKS)]
    made = combination("reduce", parts, REDUCE["binomial"].schedule(RANKS))
    assert not made.is_shared and made.writes == (tuple(aval_of(array) for array in parts[0]),) * RANKS
    assert [total.tolist() for total in results(made, parts)] == [[3, 3], 3, [0, 0], 0, [0, 0], 0]


@pytest.mark.parametrize(
    ("first", "other", "advice"),
    [
        (np.ones(2, "f"), np.int32([1, 2]), "Cast"),
        (np.ones(2, "f"), np.ones((2, 3), "f"), "reshape"),
        (np.ones((2, 3), "f"), np.ones((3, 2), "f"), "reshape"),
        (np.ones(2, "f"), np.ones(3, "f"), "gather"),
    ],
)
def test_what_cannot_be_joined_whatever_its_length_is_not_to_be_padded(first: Any, other: Any, advice: str) -> None:
    avals = [(aval_of(array),) for array in (first, other)]
    one, another = (Collective("all_gather", own, own * 2, 2) for own in avals)
    error = str(disagreement("worker:0", one, "worker:1", another, 0))
    assert advice in error and ("pad it" in error) == (advice == "gather")


def test_combinations_are_made_once_for_each_schedule_type_and_scale() -> None:
    known, avals = Combinations(), ((Aval((2,), "float32"),),) * RANKS
    collective = Collective("all_reduce", avals[0], avals[0], RANKS)
    first = known.of(collective, RING, avals, 1)
    assert known.of(Collective("all_reduce", avals[0], avals[0], RANKS, label="again"), RING, avals, 1) is first
    others = [
        known.of(collective, ALL_REDUCE["binomial"].schedule(RANKS), avals, 1),
        known.of(collective, RING, ((Aval((3,), "float32"),),) * RANKS, 1),
        known.of(collective, RING, avals, 2),
    ]
    assert len({id(made) for made in (first, *others)}) == 4


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_added_gives_the_plain_sum_of_whole_numbers(ranks: int) -> None:
    schedule = ALL_REDUCE["ring"].schedule(ranks)
    parts = [[np.int32([rank, 1]), np.float32(rank)] for rank in range(ranks)]
    sums = added(schedule, parts)
    assert [np.asarray(total).tolist() for total in sums] == [[sum(range(ranks)), ranks], sum(range(ranks))]
