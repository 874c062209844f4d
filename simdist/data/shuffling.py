"""Streams in a random order: tf.data's shuffle buffer, for thousands of rows at a time.

The buffer holds the next inputs. Each output is taken from a slot chosen at random, and the next input takes its place.
So an element can move back any distance, and forward at most as far as the buffer is long. Once the inputs have ended,
what is left comes out in the order of a permutation; a buffer that holds everything is therefore a full permutation.

Invariant: the order depends on the seed, the iteration and the inputs, never on how many elements are asked for at a
time.

Taught in lesson 08.
"""

from __future__ import annotations

import numpy as np

from simdist.data.leaves import Array
from simdist.data.seeds import epoch_block, epochs_in_block, generator, permutation
from simdist.data.streams import NOTHING, Pull

__all__ = ["permuted_epochs", "shuffled"]


def shuffled(source: Pull, buffer_size: int, seed: int, iteration: int) -> Pull:
    """A buffer of `buffer_size` elements; each output leaves a slot chosen at random to the next input.

    With no more elements than slots, that is a full permutation. The result does not depend on how many elements are
    asked for at a time: one random number belongs to each output.
    """
    held: Array | None = None
    first: list[Array] = [NOTHING]  # what will be held: it outlives an element that raises
    random: np.random.Generator | None = None
    ended = False

    def pull(limit: int) -> Array:
        nonlocal held, random, ended
        if held is None:
            while (room := buffer_size - sum(map(len, first))) and len(chunk := source(room)):
                first.append(chunk)
            held = np.concatenate(first[1:] or first)
        if not ended and len(fresh := source(limit)):
            random = random or generator(seed, iteration)
            return through_buffer(held, fresh, random.random(len(fresh)))
        if not ended:
            ended = True
            length = len(held)
            held = held[random.permutation(length) if random else permutation(seed, iteration, length)]
        out, held = held[:limit], held[limit:]
        return out

    return pull


def permuted_epochs(rows: Array, seed: int, first: int, count: int | None) -> Pull:
    """A full permutation of `rows` for each of `count` iterations from `first` on: `repeated` of `shuffled`, in blocks.

    Args:
        rows: the order before shuffling, shape [n], with n at most half of `EPOCH_BLOCK`.
        seed: the shuffle's seed.
        first: number of the first iteration.
        count: number of iterations, or None for ever.
    """
    length = len(rows)
    block_rows = epochs_in_block(length) * length
    order = None if np.array_equal(rows, np.arange(length)) else rows  # thousands of workers need not keep what says nothing
    at = first * length
    end = None if count is None else at + count * length

    def pull(limit: int) -> Array:
        nonlocal at
        left = limit if end is None else min(limit, end - at)
        block, offset = divmod(at, block_rows)
        chunk = epoch_block(seed, block, length)[offset : offset + left] if left else NOTHING
        at += len(chunk)
        return chunk if order is None else order[chunk]

    return pull


def through_buffer(held: Array, fresh: Array, uniform: Array) -> Array:
    """Run `fresh` through the buffer `held`, in place: element k goes where output k came from.

    Args:
        held: the buffer, shape [s]; changed in place.
        fresh: the next inputs, shape [k].
        uniform: one number in [0, 1) per input, which chooses the slot.

    Returns:
        The outputs, shape [k]. Within the inputs that go to one slot, each output is the input before it.
    """
    slots = (uniform * len(held)).astype(np.intp)
    order = np.argsort(slots, kind="stable")
    groups = slots[order]
    first = np.ones(len(fresh), bool)
    first[1:] = groups[1:] != groups[:-1]
    last = np.append(first[1:], True)
    out = np.empty_like(fresh)
    out[order[first]] = held[groups[first]]
    out[order[~first]] = fresh[order[~last]]
    held[groups[last]] = fresh[order[last]]
    return out
