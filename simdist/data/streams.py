"""Streams: functions that hand out the next few elements, and what each step of a pipeline does to them.

A stream is a function `pull(limit)` that returns a one-dimensional array of one to `limit` elements, or an empty array
at the end, and again at every later call. The elements are row numbers of one table (int32), or `Batch` objects
(dtype object): slicing, striding and shuffling an array is the same code for both, and one numpy call for a thousand
rows. A step pulls no more from its source than the elements it was asked for need, so that a source with side effects
is read exactly as far as tf.data would read it.

Two rules for this file: no user code is called here, and nothing is random (that is in shuffling.py).

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simdist.data.batch import Batch
from simdist.data.leaves import Array
from simdist.data.table import Table
from simdist.errors import InvalidArgumentError

__all__ = [
    "FUTILE_ROWS",
    "MAX_CHUNK",
    "NOTHING",
    "FutileError",
    "Pull",
    "as_objects",
    "batch_rows",
    "cycled",
    "drained",
    "filled",
    "from_rows",
    "repeated",
    "row_batches",
    "sharded",
    "skipped",
    "taken",
]

Pull = Callable[[int], Array]

NOTHING: Array = np.empty(0, np.int32)
MAX_CHUNK = 1 << 16  # elements made at once by a stream that could make any number
READ_AHEAD = 1024  # rows that a batch asks for at once
FUTILE_ROWS = 1_000_000  # elements, one after another, that come to nothing before a step gives up


class FutileError(InvalidArgumentError):
    """A step has read many elements of which nothing came, and may never end."""


def as_objects(items: list[Batch]) -> Array:
    """A list of batches as a stream's array."""
    out = np.empty(len(items), object)
    out[:] = items
    return out


def drained(pull: Pull) -> Array:
    """All elements that are left of a finite stream."""
    parts: list[Array] = []
    while len(chunk := pull(MAX_CHUNK)):
        parts.append(chunk)
    return np.concatenate(parts) if parts else NOTHING


def from_rows(rows: Array) -> Pull:
    """The given row numbers, once."""
    at = 0

    def pull(limit: int) -> Array:
        nonlocal at
        chunk = rows[at : at + limit]
        at += len(chunk)
        return chunk

    return pull


def cycled(rows: Array, count: int | None) -> Pull:
    """The given row numbers `count` times, or for ever: `repeated` for short orders that never change."""
    at, length = 0, len(rows)
    total = None if count is None else count * length

    def pull(limit: int) -> Array:
        nonlocal at
        limit = min(limit, MAX_CHUNK) if total is None else min(limit, MAX_CHUNK, total - at)
        if not length or not limit:
            return NOTHING
        chunk = rows[np.arange(at, at + limit) % length]
        at += limit
        return chunk

    return pull


def repeated(reopen: Callable[[], Pull], count: int | None) -> Pull:
    """The stream that `reopen` gives, `count` times, or until it gives nothing at all."""
    source: Pull | None = None
    left = count
    delivered = True

    def pull(limit: int) -> Array:
        nonlocal source, left, delivered
        while True:
            if source is None:
                if left == 0 or not delivered:
                    return NOTHING
                left = None if left is None else left - 1
                source, delivered = reopen(), left is not None
            chunk = source(limit)
            if len(chunk):
                delivered = True
                return chunk
            source = None

    return pull


def taken(source: Pull, count: int) -> Pull:
    """The first `count` elements."""
    left = count

    def pull(limit: int) -> Array:
        nonlocal left
        if not left:
            return NOTHING
        chunk = source(min(limit, left))
        left -= len(chunk)
        return chunk

    return pull


def skipped(source: Pull, count: int) -> Pull:
    """All but the first `count` elements."""
    left = count

    def pull(limit: int) -> Array:
        nonlocal left
        while left:
            chunk = source(min(left, MAX_CHUNK))
            if not len(chunk):
                return chunk
            left -= len(chunk)
        return source(limit)

    return pull


def sharded(source: Pull, num_shards: int, index: int) -> Pull:
    """Every element whose position is `index` modulo `num_shards`."""
    wait = index  # elements before the next one of ours

    def pull(limit: int) -> Array:
        nonlocal wait
        while True:
            chunk = source(wait + 1 + (min(limit, MAX_CHUNK) - 1) * num_shards)
            ours = chunk[wait::num_shards]
            wait = (wait - len(chunk)) % num_shards
            if len(ours) or not len(chunk):
                return ours

    return pull


def filled(source: Pull, size: int) -> Array:
    """A new array of the next `size` elements, or of all that are left."""
    parts: list[Array] = [NOTHING]
    while size and len(chunk := source(size)):
        parts.append(chunk)
        size -= len(chunk)
    return np.concatenate(parts[1:] or parts)


def row_batches(source: Pull, table: Table, size: int, drop_remainder: bool, stays: Callable[[], bool]) -> Pull:
    """Batches of `size` rows; the rows are read ahead, many at a time.

    Args:
        source: of the rows.
        table: where they are.
        size: rows of a batch.
        drop_remainder: whether a last batch that is not full is left out.
        stays: whether what has just raised is tried again. If not, the rows before it that fill no batch go with it, as in tf.data.
    """
    buffer, at, ended = NOTHING, 0, False
    ahead = 4 * size  # doubled up to READ_AHEAD: a first batch should not wait for a hundred others

    def pull(limit: int) -> Array:
        nonlocal buffer, at, ended, ahead
        parts, found = [buffer[at:]], len(buffer) - at
        try:
            while found < size and not ended:
                more = source(max(ahead, size))
                ahead = min(2 * ahead, READ_AHEAD)
                ended = not len(more)
                parts.append(more)
                found += len(more)
        except Exception:
            if not stays():
                parts = [NOTHING, NOTHING]
            raise
        finally:  # an interrupt loses no rows
            if len(parts) > 1:
                buffer, at = np.concatenate(parts), 0
        count = min(limit, (len(buffer) - at) // size)
        start, at = at, at + count * size
        items = [Batch(table, buffer[low : low + size]) for low in range(start, at, size)]
        if not items and not drop_remainder and at < len(buffer):
            items = [Batch(table, buffer[at:])]
            at = len(buffer)
        return as_objects(items)

    return pull


def batch_rows(source: Pull) -> Pull:
    """The row numbers inside a stream of batches of rows."""
    rest = NOTHING

    def pull(limit: int) -> Array:
        nonlocal rest
        while not len(rest):
            chunk = source(1)
            if not len(chunk):
                return NOTHING
            rest = chunk[0].rows
        out, rest = rest[:limit], rest[limit:]
        return out

    return pull
