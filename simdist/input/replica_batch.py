"""What one replica gets for a step: its rows of the global batch.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from simdist.data.batch import Batch
from simdist.data.leaves import Array, Leaves, Structure
from simdist.data.table import Table
from simdist.input.steps import InputStep
from simdist.program.step_iterator import BatchSignature

__all__ = ["ReplicaBatch", "leaves_of_all", "replica_batches"]


class ReplicaBatch:
    """The b rows of one replica, and how many rows all replicas get.

    Args:
        batch: the replica's rows, leaves of shape [b, ...]; b may be 0.
        global_rows: rows of all replicas together; None where a worker's program cannot know those of the others.
        element: of its worker's pipeline, as `InputStep` tells it from others.

    Attributes:
        signature: that of the batch, and `global_rows`: what a step is traced for.

    Example:
        >>> import numpy as np
        >>> part = ReplicaBatch(Batch.from_value(np.zeros((2, 3))), global_rows=5)
        >>> part.num_rows, part.global_rows, part.leaves()[0].shape
        (2, 5, (2, 3))
    """

    __slots__ = ("batch", "element", "global_rows", "signature")

    def __init__(self, batch: Batch, global_rows: int | None, element: int | None = None) -> None:
        self.batch = batch
        self.global_rows = global_rows
        self.element = element
        self.signature: BatchSignature = (*batch.signature, global_rows)

    @property
    def table(self) -> Table | None:
        return self.batch.table

    @property
    def rows(self) -> Array | None:
        return self.batch.rows

    @property
    def structure(self) -> Structure:
        return self.batch.structure

    @property
    def num_rows(self) -> int:
        return self.batch.num_rows

    def leaves(self) -> Leaves:
        """The arrays, each of shape [b, ...]."""
        return self.batch.leaves()


def replica_batches(step: InputStep) -> list[ReplicaBatch]:
    """What each replica gets of a step, in the order of the replicas: worker after worker.

    Example:
        >>> from simdist.data import Dataset
        >>> from simdist.input import DistributedInput
        >>> step = next(iter(DistributedInput(Dataset.range(5).batch(5), replicas_per_worker=2)))
        >>> [(part.num_rows, part.global_rows) for part in replica_batches(step)]
        [(3, 5), (2, 5)]
    """
    global_rows = step.num_rows
    return [ReplicaBatch(part, global_rows, step.element(worker)) for worker, parts in enumerate(step.parts) for part in parts]


def leaves_of_all(parts: Sequence[ReplicaBatch]) -> list[list[Array]]:
    """For each leaf the array of every replica. Rows of one table are gathered at once: read-only parts of one array.

    Example:
        >>> from simdist.data import Dataset
        >>> from simdist.input import DistributedInput
        >>> step = next(iter(DistributedInput(Dataset.range(5).batch(5), replicas_per_worker=2)))
        >>> [[array.tolist() for array in arrays] for arrays in leaves_of_all(replica_batches(step))]
        [[[0, 1, 2], [3, 4]]]
    """
    table = parts[0].table
    rows = [part.rows for part in parts if part.table is table and part.rows is not None and part.rows.ndim == 1]
    if table is None or len(rows) < len(parts):
        return [list(arrays) for arrays in zip(*(part.leaves() for part in parts), strict=True)]
    edges = np.cumsum([0, *map(len, rows)]).tolist()
    leaves: list[list[Array]] = []
    for column in table.read(np.concatenate(rows)):
        leaves.append([column[start:stop] for start, stop in pairwise(edges)])
    return leaves
