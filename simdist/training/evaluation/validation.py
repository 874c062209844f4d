"""The evaluation by `fit` at the end of epochs. In launched mains all of them take part, as each runs the same `fit`."""

from __future__ import annotations

from collections.abc import Sequence

from keras.src.trainers.data_adapters.data_adapter_utils import unpack_x_y_sample_weight

from simdist.data.next_pass import next_pass, set_next_pass
from simdist.data.positions import Position
from simdist.errors import InvalidArgumentError
from simdist.training.arguments import require_inherited, require_numbers
from simdist.training.evaluation.evaluate import tested
from simdist.training.hooks import Hooks
from simdist.training.keras_model import Examples, Logs, StrategyModel
from simdist.training.sources import Source, evaluation_source, gives_batches

__all__ = ["Validation"]


class Validation:
    """The evaluation by `fit` at the end of epochs.

    Args:
        model: which is trained.
        data: a dataset, or a tuple (x, y) or (x, y, sample_weight).
        batch_size: of fit, for arrays.
        own_batch_size: validation_batch_size.
        steps: validation_steps.
        frequency: every how many epochs, or a list of epochs from 1.

    Raises:
        InvalidArgumentError: options without data, or data without an end.
        FailedPreconditionError: the cluster computes no numbers.
    """

    def __init__(
        self,
        model: StrategyModel,
        data: Examples,
        batch_size: int | None,
        own_batch_size: int | None,
        steps: int | None,
        frequency: int | Sequence[int],
    ) -> None:
        self.model, self.steps, self.frequency = model, steps, _checked_frequency(frequency)
        self.source: Source | None = None
        if data is None:
            if steps is not None or own_batch_size is not None:
                raise InvalidArgumentError("validation_steps or validation_batch_size was given, but no validation_data. Pass it, too.")
            return
        require_numbers(model, "validation_data")
        require_inherited(model, "evaluate")
        size = own_batch_size if gives_batches(data) else own_batch_size or batch_size
        x, y, weight = (data, None, None) if gives_batches(data) else unpack_x_y_sample_weight(data)
        self.source = evaluation_source("validation_data", x, y, weight, size, steps)

    def logs(self, epoch: int, hooks: Hooks) -> Logs:
        """Loss and metrics after an epoch, from 0, named val_...; nothing where none are due."""
        number, frequency = epoch + 1, self.frequency
        due = number % frequency == 0 if isinstance(frequency, int) else number in frequency
        if self.source is None or not due:
            return {}
        with self.source.epoch(reset=True):
            values = tested(self.model, self.source, self.steps, hooks, verbose=0, alone=False)
        return {f"val_{name}": value for name, value in values.items()}

    def position(self) -> Position | None:
        """Where the next evaluation begins to read; None where there are no data."""
        return None if self.source is None else next_pass(self.source.dataset)

    def go_to(self, position: Position) -> None:
        """Let the next evaluation read what it would read there.

        Raises:
            InvalidArgumentError: the position is that of other data.
        """
        if self.source is not None:
            set_next_pass(self.source.dataset, position)


def _checked_frequency(frequency: int | Sequence[int]) -> int | Sequence[int]:
    numbers = frequency if isinstance(frequency, list) else [frequency]
    if not all(isinstance(number, int) and not isinstance(number, bool) and number > 0 for number in numbers):
        raise InvalidArgumentError(f"validation_freq={frequency!r}; expected a number of epochs from 1, or a list of epochs.")
    return frequency
