"""Loaders of other libraries as sources: the DataLoader of torch, and Grain.

Nothing is imported: an object is known by the names of its classes, as Keras knows it. Each pass asks the loader for a new
iterator, in this process; how it makes its batches, and in which order, is the loader's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Self

from keras.src.trainers.data_adapters import is_grain_dataset, is_torch_dataloader

from simdist.data import Dataset
from simdist.program.arrays import Tree
from simdist.training.keras_model import Examples
from simdist.training.sources.base import Given, Source
from simdist.training.sources.batches import standard_batch
from simdist.training.sources.refusals import require_alone

__all__ = ["Conversions", "GrainSource", "LoaderSource"]


class Conversions:
    """An iterable of batches, each converted when it is read.

    Args:
        batches: an iterable that can be passed over again.
        convert: from what it gives to a batch.

    Example:
        >>> halves = Conversions([2, 4], lambda number: number / 2)
        >>> list(halves), list(halves), len(halves)
        ([1.0, 2.0], [1.0, 2.0], 2)
    """

    def __init__(self, batches: Iterable[Tree], convert: Callable[[Tree], Tree]) -> None:
        self.batches, self.convert = batches, convert

    def __iter__(self) -> Iterator[Tree]:
        return map(self.convert, self.batches)

    def __len__(self) -> int:
        # The TypeError of what has no length says that only reading can tell.
        return len(self.batches)  # pyright: ignore[reportArgumentType]


class LoaderSource(Source):
    """The batches of a torch DataLoader."""

    kind = "a DataLoader"
    is_kind: ClassVar[Callable[[Examples], bool]] = staticmethod(is_torch_dataloader)

    @classmethod
    def accepts(cls, x: Examples) -> bool:
        return cls.is_kind(x)

    @classmethod
    def of(cls, given: Given) -> Self:
        """The batches of a loader.

        Raises:
            InvalidArgumentError: options beside it.
        """
        require_alone(given, cls.kind)
        return cls(Dataset.from_iterable(Conversions(given.x, lambda value: standard_batch(value, cls.kind, lone=True))))


class GrainSource(LoaderSource):
    """The batches of a Grain loader or dataset."""

    kind = "a Grain dataset"
    is_kind: ClassVar[Callable[[Examples], bool]] = staticmethod(is_grain_dataset)
