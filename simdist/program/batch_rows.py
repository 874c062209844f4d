"""How many rows all replicas have together of the batches that one of them has parts of.

A part does not say which batch it is from, but how many rows it has; for most steps that is enough. Where parts of one length are from
batches of different sizes it is not, and then there is no answer rather than a wrong one. Whether what has so many rows is such a part, all
replicas find together (`simdist.program.global_sizes`).
"""

from __future__ import annotations

from collections.abc import Sequence

from simdist.errors import InvalidArgumentError

__all__ = ["BatchRows", "common_size"]


class BatchRows:
    """The sizes of batches, by the rows of one replica's parts of them.

    Attributes:
        unknown: lengths of what is perhaps part of a batch, of which nobody knows which one.

    Example:
        >>> rows = BatchRows()
        >>> rows.note(4, 8), rows.note(3, 7)
        (None, None)
        >>> rows.size_of(4), rows.size_of(3), rows.size_of(2)
        (8, 7, None)
    """

    def __init__(self) -> None:
        self._sizes: dict[int, set[int]] = {}
        self.unknown: set[int] = set()

    def note(self, rows: int, all_rows: int | None) -> None:
        """There is a part of so many rows, of a batch of `all_rows`; None: of one whose size is not known."""
        if all_rows is None:
            self.unknown.add(rows)
        else:
            self._sizes.setdefault(rows, set()).add(all_rows)

    def sizes_of(self, rows: int) -> set[int]:
        """The sizes of all batches that have a part of so many rows."""
        return self._sizes.get(rows, set())

    def size_of(self, rows: int) -> int | None:
        """The size of the batch that has a part of so many rows; None where there is none, or batches of different sizes."""
        return None if rows in self.unknown else only(self.sizes_of(rows))

    def are_uneven(self, num_replicas: int) -> bool:
        """Whether other replicas have more rows of a batch, or fewer."""
        return any(rows * num_replicas != all_rows for rows, sizes in self._sizes.items() for all_rows in sizes)

    @property
    def are_none(self) -> bool:
        """Whether there are parts of batches, and none of them has rows."""
        return bool(self._sizes) and not any(self._sizes) and not any(self.unknown)

    def of_all(self, count: int, num_replicas: int) -> int:
        """How many all replicas have together of what this one has so many of."""
        pairs = [(rows, all_rows) for rows, sizes in self._sizes.items() for all_rows in sizes]
        if len(pairs) != 1:
            return count * num_replicas
        ((rows, all_rows),) = pairs
        return count * all_rows // rows if rows else count


def common_size(rows: int, candidates: Sequence[BatchRows]) -> int | None:
    """The size of the batch that has a part of so many rows, where any of these may be the ones it is among.

    Raises:
        InvalidArgumentError: batches of different sizes have one.
    """
    sizes = sorted(set[int]().union(*(known.sizes_of(rows) for known in candidates)))
    if len(sizes) > 1 and rows:
        raise InvalidArgumentError(
            f"A replica has {rows} rows of batches of {' and '.join(map(str, sizes))} rows in one step, and a loss of {rows} rows does not "
            "say which of them it belongs to. Give the size of its batch, compute_average_loss(..., global_batch_size=...), or give each "
            "batch to a strategy.run by itself."
        )
    return sizes[-1] if sizes else None  # a sum over no rows is 0, whatever it is divided by


def only(sizes: set[int]) -> int | None:
    """The only element; None where there is none, or several."""
    return next(iter(sizes)) if len(sizes) == 1 else None
