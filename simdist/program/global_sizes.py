"""Global sizes: what the replicas of a step take for the number of examples that all of them have together.

A replica knows how many rows its loss has, and of which size a batch is that it has so many rows of (`simdist.program.batch_rows`). That
may be a coincidence: of a loss of the four hardest rows, only a replica whose part has four rows seems to know. So all replicas decide
together, when they have been traced, and a step is traced again where some were wrong.

A size that the step gives itself has to be the same everywhere; replicas compare it at their next collective, as mains know no more of each
other.

Invariant: the replicas that are traced here take one number for the size of one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simdist.errors import InvalidArgumentError

__all__ = ["GivenSize", "GlobalSize", "joint_sizes", "differing_sizes", "taken"]


class GlobalSize(NamedTuple):
    """What one replica knows of a size.

    Attributes:
        rows: of the replica's loss.
        known: the size of the batch that the replica has so many rows of; None where there is none.
    """

    rows: int
    known: int | None


class GivenSize(NamedTuple):
    """A size that a step was given.

    Attributes:
        rows: of the replica's loss.
        size: the number of examples of all replicas.
    """

    rows: int
    size: int


def taken(sizes: list[GivenSize]) -> tuple[GivenSize, ...]:
    """The sizes in a list, which is empty then."""
    all_sizes = tuple(sizes)
    sizes.clear()
    return all_sizes


def differing_sizes(one: Sequence[GivenSize], other: Sequence[GivenSize], num_replicas: int) -> tuple[int, int] | None:
    """The first size of one replica that is another one of another replica; None where they agree.

    They do, too, where each is the replica's rows by the number of replicas, as where no size is given, and where each is its rows: that is
    the mean over them, as a value to log or for a mean over the replicas. A loss of no rows is 0 by any size.

    Example:
        >>> differing_sizes([GivenSize(4, 8)], [GivenSize(4, 4)], 2), differing_sizes([GivenSize(4, 8)], [GivenSize(3, 6)], 2)
        ((8, 4), None)
    """
    if len(one) != len(other):
        return None  # one of them has sizes that its step computes
    for mine, theirs in zip(one, other, strict=True):
        by_rows = any(all(given.size == given.rows * factor for given in (mine, theirs)) for factor in (1, num_replicas))
        if mine.size != theirs.size and mine.rows and theirs.rows and not by_rows:
            return mine.size, theirs.size
    return None


def joint_sizes(name: str, of_replicas: Sequence[Sequence[GlobalSize]], num_replicas: int) -> list[int | None]:
    """The sizes of a step, in their order, that are those of no batch: how many rows the losses of all replicas have together.

    Args:
        name: of the step.
        of_replicas: what each replica knows of each size; the replicas of other mains are not among them.
        num_replicas: of all mains.

    Returns:
        None for what each replica knows, or finds as its rows by the number of replicas.

    Raises:
        InvalidArgumentError: only some losses have the rows of their parts of a batch, and not all have as many as the others.

    Example:
        >>> joint_sizes("step", [[GlobalSize(5, 9), GlobalSize(4, None)], [GlobalSize(4, 9), GlobalSize(4, 9)]], 2)
        [None, 8]
        >>> joint_sizes("step", [[GlobalSize(8, None)], [GlobalSize(6, None)]], 2)
        [14]
    """
    if len({len(sizes) for sizes in of_replicas}) != 1:
        return []  # replicas that do different things have no sizes in common
    return [_joint_size(name, sizes, num_replicas) for sizes in zip(*of_replicas, strict=True)]


def _joint_size(name: str, sizes: Sequence[GlobalSize], num_replicas: int) -> int | None:
    counting = [size for size in sizes if size.rows]  # a sum over no rows is 0, whatever it is divided by
    known, lengths = {size.known for size in counting}, list(dict.fromkeys(size.rows for size in counting))
    total = sum(size.rows for size in counting) if len(sizes) == num_replicas else None
    if len(known) <= 1:
        by_rows = known != {None} or total is None or all(size.rows * num_replicas == total for size in sizes)
        return None if by_rows else total
    if len(lengths) == 1:
        return lengths[0] * num_replicas if total is None else total
    batches = sorted({size.known for size in counting if size.known is not None})
    raise InvalidArgumentError(
        f"In {name}, the losses of the replicas have {' and '.join(map(str, lengths))} rows. Only some are as long as the replica's part "
        f"of a batch of {' or '.join(map(str, batches))} rows, so they do not say how many examples all replicas have together. Give that "
        "number: compute_average_loss(..., global_batch_size=...)."
    )
