"""Global sizes: what the replicas of a step take for the number of examples that all of them have together.

A replica knows how many rows its loss has, and of which size a batch is that it has so many rows of (`simdist.program.batch_rows`). That
may be a coincidence: of a loss of the four hardest rows, only a replica whose part has four rows seems to know. So all replicas decide
together, when they have been traced, and a step is traced again where some were wrong.

Invariant: the replicas that are traced here take one number for the size of one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simdist.errors import InvalidArgumentError

__all__ = ["GlobalSize", "sizes_to_guess"]


class GlobalSize(NamedTuple):
    """What one replica knows of a size.

    Attributes:
        rows: of the replica's loss.
        known: the size of the batch that the replica has so many rows of; None where there is none.
    """

    rows: int
    known: int | None


def sizes_to_guess(name: str, of_replicas: Sequence[Sequence[GlobalSize]]) -> list[bool]:
    """Which sizes of a step, in their order, are the rows of a replica by the number of replicas, though some replicas know a batch.

    Args:
        name: of the step.
        of_replicas: what each replica knows of each size.

    Raises:
        InvalidArgumentError: only some losses have the rows of their parts of a batch, and not all have as many as the others.

    Example:
        >>> sizes_to_guess("step", [[GlobalSize(5, 9), GlobalSize(4, None)], [GlobalSize(4, 9), GlobalSize(4, 9)]])
        [False, True]
    """
    if len({len(sizes) for sizes in of_replicas}) != 1:
        return []  # replicas that do different things have no sizes in common
    return [_is_guessed(name, sizes) for sizes in zip(*of_replicas, strict=True)]


def _is_guessed(name: str, sizes: Sequence[GlobalSize]) -> bool:
    counting = [size for size in sizes if size.rows]  # a sum over no rows is 0, whatever it is divided by
    if len({size.known for size in counting}) <= 1:
        return False
    lengths = list(dict.fromkeys(size.rows for size in counting))
    if len(lengths) == 1:
        return True
    batches = sorted({size.known for size in counting if size.known is not None})
    raise InvalidArgumentError(
        f"In {name}, the losses of the replicas have {' and '.join(map(str, lengths))} rows. Only some are as long as the replica's part "
        f"of a batch of {' or '.join(map(str, batches))} rows, so they do not say how many examples all replicas have together. Give that "
        "number: compute_average_loss(..., global_batch_size=...)."
    )
