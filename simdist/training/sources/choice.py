"""Which source reads what a call was given: here, and nowhere else, one asks of which kind the data is."""

from __future__ import annotations

from simdist.errors import InvalidArgumentError
from simdist.training.keras_model import Examples, StrategyModel, strategy_of
from simdist.training.sources.arrays import ArraySource, Rows, split_rows
from simdist.training.sources.base import ENDLESS, Given, Source
from simdist.training.sources.datasets import DatasetSource
from simdist.training.sources.generator import GeneratorSource
from simdist.training.sources.loaders import GrainSource, LoaderSource
from simdist.training.sources.py_dataset import PyDatasetSource
from simdist.training.sources.refusals import require_shuffle
from simdist.training.sources.tensorflow import TensorFlowSource

__all__ = ["evaluation_source", "gives_batches", "split_arrays", "training_source"]

KINDS: tuple[type[Source], ...] = (
    DatasetSource,
    PyDatasetSource,
    GeneratorSource,
    LoaderSource,
    GrainSource,
    TensorFlowSource,
    ArraySource,
)


def gives_batches(x: Examples) -> bool:
    """Whether an object gives batches by itself, so that it holds targets and weights as well.

    Example:
        >>> gives_batches(([1, 2], [3, 4])), gives_batches(batch for batch in [([1, 2], [3, 4])])
        (False, True)
    """
    return _kind_of(x) is not ArraySource


def training_source(
    model: StrategyModel, x: Examples, y: Examples, shuffle: bool | None, batch_size: int | None, steps: int | None, **weights: Examples
) -> Source:
    """What `fit` reads.

    Args:
        model: which is to be trained.
        x, y: as given to `fit`.
        shuffle: None shuffles arrays, and the numbers of a PyDataset's batches, and leaves other data alone.
        batch_size, steps: as given to `fit`.
        weights: sample_weight and class_weight, as given to `fit`.

    Raises:
        InvalidArgumentError: something was given beside data that belongs into it, or there are no examples.
        TypeError: data of no kind that is known.
    """
    require_shuffle(shuffle)
    strategy = strategy_of(model)
    given = Given("fit", x, y, batch_size=batch_size, shuffle=shuffle, steps=steps, strategy=strategy, **weights)
    return _kind_of(x).of(given)


def evaluation_source(caller: str, x: Examples, y: Examples, sample_weight: Examples, batch_size: int | None, steps: int | None) -> Source:
    """What is read to evaluate or predict; its data is one plain dataset.

    Args:
        caller: the name of the call, for messages; "validation_data" for data that is read after several epochs.
        x, y, sample_weight, batch_size: as given to it.
        steps: batches that it will read at most; None reads all.

    Raises:
        InvalidArgumentError: the data has no end and `steps` is missing, or as for `training_source`.
        TypeError: data of no kind that is known.
    """
    source = _kind_of(x).of(Given(caller, x, y, sample_weight, batch_size=batch_size, steps=steps))
    if steps is None and source.cardinality() == ENDLESS:
        raise InvalidArgumentError(f"{caller} was given {source.kind} that has no end. Pass steps=, or end it with .take(n).")
    return source


def split_arrays(x: Examples, y: Examples, sample_weight: Examples, fraction: float) -> tuple[Rows, Rows]:
    """The first rows, to train with, and the last, to validate with.

    Raises:
        InvalidArgumentError: not arrays, or one of the two parts would have no rows.
    """
    kind = _kind_of(x)
    if kind is not ArraySource:
        raise InvalidArgumentError(
            f"validation_split takes arrays apart, but x is {kind.kind}. Pass validation_data=; a dataset is split with .take(n) and "
            ".skip(n)."
        )
    return split_rows(x, y, sample_weight, fraction)


def _kind_of(x: Examples) -> type[Source]:
    return next(kind for kind in KINDS if kind.accepts(x))
