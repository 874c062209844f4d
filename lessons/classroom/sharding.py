"""Which rows the workers read: a check of how a dataset is shared out, for lesson 04."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

import simdist as sd

__all__ = ["rows_read", "sharding_anomalies", "sharding_problem"]

Reads = Mapping[str, Sequence[Sequence[int]]]  # the rows of each batch, in order, by worker
WORKERS = 3
MOST_BATCHES = 50


def rows_read(distribute: Callable[[Any], Iterable[Any]]) -> Reads:
    """Which rows each of three workers reads in one pass, at most 50 batches.

    Args:
        distribute: takes a strategy, returns the distributed dataset; it is called on every worker.
    """

    def main() -> list[Any]:
        strategy = sd.MultiWorkerMirroredStrategy()
        batches = islice(distribute(strategy), MOST_BATCHES)
        return [np.atleast_1d(strategy.local_results(batch)[0]).tolist() for batch in batches]

    run = sd.Cluster({"worker": WORKERS}, seed=0).launch(main)
    run.join()
    return dict(sorted(run.results.items()))


def sharding_anomalies(reads: Reads, num_rows: int) -> list[str]:
    """What is wrong with who reads which rows in one pass: rows that are read more than once, and rows that no worker reads.

    Example:
        >>> sharding_anomalies({"worker:0": [[0, 1]], "worker:1": [[1]]}, num_rows=3)
        ['row 1 is read by worker:0 and worker:1', 'row 2 is read by no worker']
    """
    readers: dict[int, list[str]] = {row: [] for row in range(num_rows)}
    for worker, batches in sorted(reads.items()):
        for row in rows_of(batches):
            readers.setdefault(row, []).append(worker)
    wrong = [f"row {row} is read by {' and '.join(readers[row]) or 'no worker'}" for row in range(num_rows) if len(readers[row]) != 1]
    strange = [f"{readers[row][0]} reads row {row}, but there is no row {row}" for row in sorted(readers) if row not in range(num_rows)]
    return wrong + strange


def sharding_problem(reads: Reads, num_rows: int, rows_per_batch: int) -> str | None:
    """What is wrong where each worker is to read the rows of one block, in batches of so many; None if nothing is."""
    for worker, batches in sorted(reads.items()):
        if any(not isinstance(batch, list) or any(type(row) is not int for row in batch) for batch in batches):
            return f"{worker} reads elements that are not numbers of rows: build on sd.Dataset.range({num_rows})."
        if len(batches) >= MOST_BATCHES:
            return f"{worker} reads {MOST_BATCHES} batches and more: the dataset of one pass must end."
    anomalies = sharding_anomalies(reads, num_rows)
    if anomalies:
        return f"{anomalies[0]}{f', and {len(anomalies) - 1} rows more are wrong' if len(anomalies) > 1 else ''}."
    for worker, batches in sorted(reads.items()):
        rows, sizes = rows_of(batches), [len(batch) for batch in batches]
        if rows != list(range(4 * int(worker[-1]), 4 * int(worker[-1]) + 4)):
            return f"{worker} reads the rows {rows}; it should read {list(range(4 * int(worker[-1]), 4 * int(worker[-1]) + 4))}."
        if set(sizes) != {rows_per_batch}:
            return f"{worker} reads batches of {', '.join(map(str, sizes))} rows; they should have {rows_per_batch} each."
    return None


def rows_of(batches: Sequence[Sequence[int]]) -> list[int]:
    """The rows of some batches, one after the other."""
    return [int(row) for batch in batches for row in batch]
