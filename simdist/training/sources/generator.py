"""A Python generator as a source: its batches, once, in its order.

A generator with an end is one epoch; one without needs ``steps_per_epoch``, and each epoch goes on where the last one stopped. Only
batches that are used are taken, so that a second ``fit`` goes on as well.

Validation reads the same batches after every epoch: it takes them before the training and keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from types import GeneratorType
from typing import Self

from simdist.data import Dataset
from simdist.program.arrays import Tree
from simdist.training.keras_model import Examples
from simdist.training.sources.base import Given, Source
from simdist.training.sources.batches import standard_batch
from simdist.training.sources.refusals import no_data, require_alone

__all__ = ["GeneratorSource"]


class GeneratorSource(Source):
    """The batches that a generator still gives."""

    kind = "a generator"

    @classmethod
    def accepts(cls, x: Examples) -> bool:
        return isinstance(x, GeneratorType)

    @classmethod
    def of(cls, given: Given) -> Self:
        """The batches of a generator.

        Raises:
            InvalidArgumentError: options beside it.
        """
        require_alone(given, cls.kind)
        batches = (standard_batch(value, cls.kind) for value in given.x)
        if given.caller != "validation_data":
            source = cls(Dataset.from_iterable(batches))
            source.can_restart = False
            return source
        return cls(_kept(batches, given.steps))


def _kept(batches: Iterator[Tree], steps: int | None) -> Dataset:
    """The batches of all validations of a training."""
    found = list(islice(batches, steps))
    if not found:
        raise no_data("validation_data")
    return Dataset.from_iterable(found)
