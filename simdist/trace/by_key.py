"""Rows of many keys at once: sums, unions of intervals, and counts up to a moment, for each key.

A log has as many lanes as its cluster has tasks. To look for the rows of each lane in turn would take lanes times rows;
here the rows are sorted by their keys once, and each key has a slice of them.

Invariants: sums are exactly rounded (math.fsum), so they do not depend on the order of rows; a key without rows is in
no result.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["count_until", "sum_by_key", "union_by_key"]


def sum_by_key(keys: np.ndarray, values: np.ndarray) -> dict[int, float]:
    """The sum of the values of each key.

    Args:
        keys: of the rows: integers of shape (n,).
        values: of the rows: float64 of shape (n,).

    Returns:
        Sums by key, the keys in ascending order.

    Example:
        >>> sum_by_key(np.array([7, 3, 7]), np.array([0.5, 1.0, 0.25]))
        {3: 1.0, 7: 0.75}
    """
    order = np.argsort(keys, kind="stable")
    return _sums(keys[order], values[order])


def union_by_key(keys: np.ndarray, start_s: np.ndarray, end_s: np.ndarray) -> dict[int, float]:
    """How long at least one of the intervals of each key lasts.

    Args:
        keys: of the intervals: integers of shape (n,).
        start_s, end_s: of the intervals: float64 of shape (n,), in seconds.

    Returns:
        Seconds by key, the keys in ascending order.

    Example:
        >>> union_by_key(np.array([1, 0, 0]), np.array([0.0, 1.0, 0.0]), np.array([9.0, 3.0, 2.0]))
        {0: 3.0, 1: 9.0}
    """
    order = np.lexsort((start_s, keys))
    keys, start_s = keys[order], start_s[order]
    reached_s = _reached(keys, end_s[order])
    # Here a key begins, or nothing of it before is still going on.
    new = np.concatenate([[True], (keys[1:] != keys[:-1]) | (start_s[1:] > reached_s[:-1])])[: len(keys)]
    last = np.concatenate([new[1:], [True]])[: len(keys)]
    return _sums(keys[new], reached_s[last] - start_s[new])


def count_until(keys: np.ndarray, times_s: np.ndarray, asked_keys: np.ndarray, asked_s: np.ndarray) -> np.ndarray:
    """For each question (a key, a moment): how many rows of that key are not later than that moment.

    Args:
        keys, times_s: of the rows: integers and float64 of shape (n,).
        asked_keys, asked_s: of the questions: integers and float64 of shape (m,).

    Returns:
        Counts: int64 of shape (m,).

    Example:
        >>> count_until(np.array([0, 1, 0]), np.array([1.0, 1.0, 2.0]), np.array([0, 0, 1]), np.array([1.0, 5.0, 0.5])).tolist()
        [1, 2, 0]
    """
    rows = len(keys)
    every_key = np.concatenate([keys, asked_keys])
    is_question = np.arange(len(every_key)) >= rows
    order = np.lexsort((is_question, np.concatenate([times_s, asked_s]), every_key))
    before = np.empty(len(order), np.int64)
    before[order] = np.cumsum(~is_question[order])  # rows of this key and of all smaller ones
    return before[rows:] - np.searchsorted(np.sort(keys), asked_keys)


def _sums(keys: np.ndarray, values: np.ndarray) -> dict[int, float]:
    """Sums by key; the rows are sorted by key."""
    found, firsts = np.unique(keys, return_index=True)
    bounds: list[int] = [*firsts.tolist(), len(keys)]
    numbers: list[float] = values.tolist()
    return {key: math.fsum(numbers[bounds[place] : bounds[place + 1]]) for place, key in enumerate(found.tolist())}


def _reached(keys: np.ndarray, end_s: np.ndarray) -> np.ndarray:
    """The latest end of each row and those before it with its key; the rows are sorted by key.

    Ends are replaced by their ranks, so that each key can have a range of integers of its own, and one pass serves all.
    """
    by_end = np.argsort(end_s, kind="stable")
    rank = np.empty(len(end_s), np.int64)
    rank[by_end] = np.arange(len(end_s))
    base = np.cumsum(np.concatenate([[0], keys[1:] != keys[:-1]])[: len(keys)]) * len(keys)
    return end_s[by_end[np.maximum.accumulate(base + rank) - base]]
