"""How the rows of a global batch are shared among replicas.

Where the batch size is known beforehand the parts are as equal as can be, the larger ones first. Where only the batch
itself tells, the older rule holds: parts of the rounded-up size until the rows run out.

Taught in lesson 01.
"""

from __future__ import annotations

from simdist.arguments import whole_number
from simdist.errors import InvalidArgumentError

__all__ = ["replica_batch_sizes", "worker_batch_sizes"]


def replica_batch_sizes(batch_size: int, num_replicas: int, *, static: bool = True) -> tuple[int, ...]:
    """Rows of one batch for each replica.

    Args:
        batch_size: rows of the batch, 0 or more.
        num_replicas: parts to make, 1 or more.
        static: False where the batch size is not known beforehand (the pipeline maps after batching, say).

    Returns:
        One size per replica; they add up to `batch_size`.

    Example:
        >>> replica_batch_sizes(5, 3), replica_batch_sizes(1, 2), replica_batch_sizes(5, 4, static=False)
        ((2, 2, 1), (1, 0), (2, 2, 1, 0))
    """
    rows = whole_number(batch_size, "batch_size", 0)
    parts = whole_number(num_replicas, "num_replicas", 1)
    if static:
        size, rest = divmod(rows, parts)
        return tuple(size + (replica < rest) for replica in range(parts))
    size = -(-rows // parts)
    return tuple(max(0, min(size, rows - replica * size)) for replica in range(parts))


def worker_batch_sizes(global_batch_size: int, num_workers: int, num_replicas_per_worker: int, worker_index: int) -> tuple[int, ...]:
    """Sizes that one worker's batches run through, over and over, when it reads a data source of its own.

    At each step the parts of all workers make one global batch, and over a whole round each worker has read exactly
    one global batch: worker w begins the round w workers later.

    Args:
        global_batch_size: rows of one step over all replicas.
        num_workers: workers, each with a source of its own.
        num_replicas_per_worker: replicas of each.
        worker_index: which worker, from 0.

    Returns:
        One size per replica of the whole cluster.

    Raises:
        InvalidArgumentError: there is no such worker.

    Example:
        >>> [worker_batch_sizes(4, 3, 1, worker) for worker in range(3)]
        [(2, 1, 1), (1, 1, 2), (1, 2, 1)]
    """
    whole_number(num_workers, "num_workers", 1)
    if whole_number(worker_index, "worker_index", 0) >= num_workers:
        raise InvalidArgumentError(f"worker_index is {worker_index} of {num_workers}; expected 0 to {num_workers - 1}")
    sizes = replica_batch_sizes(global_batch_size, num_workers * num_replicas_per_worker)
    start = worker_index * num_replicas_per_worker
    return sizes[start:] + sizes[:start]
