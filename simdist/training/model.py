"""Keras models that know strategies: `Model` and `Sequential`.

A model remembers the strategy in whose scope it was made. Its ``fit`` traces one training step and lets the strategy run
it: on one device, on several, or by a coordinator on workers. A model that was made outside of every scope is an ordinary
Keras model.
"""

from __future__ import annotations

from typing import Any, cast

import keras
from keras.src.models.functional import Functional
from keras.src.models.model import functional_init_arguments

from simdist.errors import FailedPreconditionError
from simdist.strategies.context import get_strategy, has_strategy
from simdist.training import fit as loops
from simdist.training.step import forget_steps, prepare_optimizer

__all__ = ["Model", "Sequential"]


class _Distributed(keras.Model):
    """What our models have beyond Keras'."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        instance = cast(Any, super().__new__(cls, *args, **kwargs))
        object.__setattr__(instance, "simdist_strategy", get_strategy() if has_strategy() else None)
        return instance

    def compile(self, *args: Any, **options: Any) -> None:
        """As `keras.Model.compile`; steps that were traced for an earlier one are traced again."""
        super().compile(*args, **options)
        forget_steps(self)

    def load_weights(self, filepath: Any, skip_mismatch: bool = False, **options: Any) -> None:
        """As `keras.Model.load_weights`; a compiled model gets the optimizer's slots as well."""
        if self.simdist_strategy is not None and self.built and self.compiled and self.optimizer is not None:
            prepare_optimizer(self)
        super().load_weights(filepath, skip_mismatch=skip_mismatch, **options)

    def fit(self, x: Any = None, y: Any = None, **options: Any) -> Any:
        """Train, as `keras.Model.fit` does, on the devices of the strategy.

        Args:
            x: a `Dataset`, arrays (with `y`), or under parameter servers a `DatasetCreator`.
            y: targets, where x is arrays.
            options: those of Keras: batch_size, epochs, verbose, callbacks, validation_data, shuffle, sample_weight,
                initial_epoch, steps_per_epoch, validation_steps, validation_freq.

        Returns:
            `keras.callbacks.History`.

        Raises:
            InvalidArgumentError: steps_per_epoch is missing where the data has no end, or a loss is not finite.
            OutOfRangeError: the data ran out before the steps were done.
        """
        if self.simdist_strategy is None:
            return super().fit(x, y, **options)
        self._assert_compile_called("fit")
        if type(self).train_step not in (_Distributed.train_step, Model.train_step, Sequential.train_step):
            raise FailedPreconditionError(
                f"{type(self).__name__} overrides train_step, which fit does not distribute yet. Write the step as a function under "
                "@sd.function instead."
            )
        return loops.fit(self, x, y, **options)

    def evaluate(self, x: Any = None, y: Any = None, **options: Any) -> Any:
        """Loss and metrics on data, as `keras.Model.evaluate` gives them; computed by the chief."""
        if self.simdist_strategy is None:
            return super().evaluate(x, y, **options)
        self._assert_compile_called("evaluate")
        return loops.evaluate(self, x, y, **options)

    def predict(self, x: Any, **options: Any) -> Any:
        """Outputs for data, in its order; computed by the chief."""
        if self.simdist_strategy is None:
            return super().predict(x, **options)
        return loops.predict(self, x, **options)


class Model(_Distributed):
    """`keras.Model` that knows strategies; functional and subclassed."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Model and functional_init_arguments(args, kwargs):
            return _Functional(*args, **kwargs)
        return super().__new__(cls)


class _Functional(Model, Functional):
    """What `Model(inputs, outputs)` makes."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        instance = object.__new__(cls)
        made = cast(Any, Functional.__new__(cls, *args, **kwargs))
        object.__setattr__(made, "simdist_strategy", get_strategy() if has_strategy() else None)
        del instance
        return made


class Sequential(_Distributed, keras.Sequential):
    """`keras.Sequential` that knows strategies."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = cast(Any, keras.Sequential.__new__(cls))
        object.__setattr__(made, "simdist_strategy", get_strategy() if has_strategy() else None)
        return made
