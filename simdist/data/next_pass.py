"""Where the next pass over a dataset begins: the iteration and the seed of each shuffle, for data that are read again and again.

Each iterator of a dataset takes the next iteration of its shuffles, counted in this process. A training that goes on in another process
takes the count along, so that what it reads after each epoch comes in the order in which it would have come.

Taught in lesson 08.
"""

from __future__ import annotations

from simdist.data.caching import cached_shuffles_of, shuffles_of
from simdist.data.dataset import Dataset
from simdist.data.positions import Position, consumed_and_bases, seeds_in

__all__ = ["next_pass", "set_next_pass"]


def next_pass(dataset: Dataset) -> Position:
    """The position at which the next iterator of a dataset begins; nothing is begun by asking.

    Example:
        >>> dataset = Dataset.range(3).shuffle(3, seed=1)
        >>> _ = list(dataset)
        >>> next_pass(dataset)
        {'consumed': 0, 'shuffles': [1], 'seeds': [1], 'cached_seeds': []}
    """
    shuffles, cached = shuffles_of(dataset.node), cached_shuffles_of(dataset.node)
    position: Position = {"consumed": 0, "shuffles": [shuffle.iterations for shuffle in shuffles]}
    return {**position, "seeds": [shuffle.seed for shuffle in shuffles], "cached_seeds": [shuffle.seed for shuffle in cached]}


def set_next_pass(dataset: Dataset, position: Position) -> None:
    """Let the next iterator of a dataset begin where `next_pass` has said, perhaps in another process.

    Raises:
        InvalidArgumentError: the position is that of another dataset.

    Example:
        >>> dataset, other = Dataset.range(9).shuffle(9, seed=1), Dataset.range(9).shuffle(9, seed=1)
        >>> _ = list(dataset)
        >>> set_next_pass(other, next_pass(dataset))
        >>> [int(number) for number in dataset] == [int(number) for number in other]
        True
    """
    shuffles = shuffles_of(dataset.node)
    _, bases = consumed_and_bases(position, len(shuffles))
    kinds = {"seeds": shuffles, "cached_seeds": cached_shuffles_of(dataset.node)}
    found = {
        kind: seeds_in(position, [one.seed for one in known], [one.draws_seed for one in known], kind) for kind, known in kinds.items()
    }
    for kind, known in kinds.items():
        for shuffle, seed in zip(known, found[kind], strict=True):
            shuffle.seed = seed
    for shuffle, base in zip(shuffles, bases, strict=True):
        shuffle.iterations = base
