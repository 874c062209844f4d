"""The idea of a source: what fit, evaluate and predict read their batches from.

Each kind of data (arrays, datasets, generators, `keras.utils.PyDataset`, loaders, tf.data) has a file with a class that makes
a `Source` of it. After that the kind is forgotten: a strategy distributes `data`, and the loop asks how many batches there
are and whether they can be read again.

Invariants: a source never takes more of a generator than the batches that are used, and the first one; the order of the batches
is the same in every run of a program.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Self, TypeAlias

from simdist.data import Dataset, DatasetIterator
from simdist.input import DatasetCreator, DistributedDataset
from simdist.strategies.base import Strategy
from simdist.strategies.distributed_from_function import DistributedFromFunction
from simdist.training.keras_model import Examples

__all__ = ["ENDLESS", "BatchedData", "Given", "Source"]

ENDLESS = -1
"""As cardinality: batches without an end."""

BatchedData: TypeAlias = Dataset | DatasetCreator | DistributedFromFunction | DistributedDataset
"""What a strategy distributes, or has distributed: its elements are batches."""


@dataclass(frozen=True)
class Given:
    """What a call was given to read.

    Attributes:
        caller: the name of the call or argument, for messages.
        x, y, sample_weight, class_weight, batch_size: as given to it.
        shuffle: as given to fit; None where it was left out. False for evaluation and prediction.
        steps: steps of an epoch; None reads all.
        strategy: of the model that is to be trained; None for evaluation and prediction.
    """

    caller: str
    x: Examples
    y: Examples = None
    sample_weight: Examples = None
    class_weight: dict[int, float] | None = None
    batch_size: int | None = None
    shuffle: bool | None = False
    steps: int | None = None
    strategy: Strategy | None = field(default=None, compare=False)


class Source(ABC):
    """Batches, and what the loop must know of them.

    Args:
        data: what a strategy distributes. Its elements are batches: x, (x, y) or (x, y, sample_weight).

    Attributes:
        kind: the noun of messages.
        can_restart: whether the batches can be read again from the first one, as further epochs need.
        may_change: whether the batches may be others in the next epoch, so that none may be kept from before it.
    """

    kind: ClassVar[str] = "a dataset"
    can_restart: bool = True
    may_change: bool = False

    def __init__(self, data: BatchedData) -> None:
        self.data = data

    @classmethod
    @abstractmethod
    def accepts(cls, x: Examples) -> bool:
        """Whether this class makes a source of such an object."""

    @classmethod
    @abstractmethod
    def of(cls, given: Given) -> Self:
        """The source of what a call was given.

        Raises:
            InvalidArgumentError: an option cannot be followed beside this kind of data.
        """

    @property
    def is_plain(self) -> bool:
        """Whether the data is one dataset that no strategy has distributed."""
        return isinstance(self.data, Dataset)

    @property
    def dataset(self) -> Dataset:
        """The data, where it is a plain dataset, as it always is for evaluation and prediction."""
        assert isinstance(self.data, Dataset)
        return self.data

    def cardinality(self) -> int:
        """Number of batches; -1 without an end, -2 where only reading can tell."""
        return self.data.cardinality() if isinstance(self.data, (Dataset, DistributedDataset)) else -2

    @property
    def num_batches(self) -> int | None:
        """Number of batches from the first one to the end; None where there is no end, or only reading can tell."""
        count = self.cardinality()
        return count if count >= 0 else None

    def __iter__(self) -> DatasetIterator:
        return iter(self.dataset)

    @contextmanager
    def epoch(self, *, reset: bool = False) -> Iterator[None]:
        """Inside, the batches of one epoch are read.

        Args:
            reset: end an epoch before, as Keras does before it evaluates.
        """
        yield
