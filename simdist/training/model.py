"""Keras models that know strategies: `Model` and `Sequential`.

A model remembers the strategy in whose scope it was made. Its ``fit`` traces one training step and lets the strategy run
it: on one device, on several, or by a coordinator on workers. A model that was made outside of every scope is an ordinary
Keras model, which reads our datasets too; but one of nothing but layers of a strategy belongs to that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Self, TypeAlias, TypeVar, cast

import keras
from keras.src.models.functional import Functional as KerasFunctional
from keras.src.models.model import functional_init_arguments

from simdist.arguments import whole_number
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Tree
from simdist.strategies.base import Strategy
from simdist.strategies.context import get_strategy, strategy_of_models
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.training import saving
from simdist.training.arguments import (
    compile_arguments,
    made_outside,
    require_compile_options,
    require_no_strategy_inside,
    require_numbers,
    strategy_inside,
)
from simdist.training.evaluation.evaluate import evaluate
from simdist.training.evaluation.predict import predict
from simdist.training.fit import fit
from simdist.training.keras_model import Examples, KerasArgument, Logs, StrategyModel, TrainingState
from simdist.training.saved_files import load_file, require_holders, saved_file
from simdist.training.saved_slots import note_model
from simdist.training.single_batch import train_on_batch
from simdist.training.sources.plain_keras import readable_by_keras
from simdist.training.step import prepare_optimizer

__all__ = ["Distiller", "Functional", "Model", "Sequential"]

FILES_OF_MODELS = (".keras", ".h5", ".hdf5")  # Keras refuses all others, and should name the path that it was given


Result: TypeAlias = Logs | float | list[float]
"""Loss and metrics: by name, in a list, or a loss alone."""

NewModel = TypeVar("NewModel", bound=StrategyModel)


class _Distributed(StrategyModel):
    """The methods that our models have beyond Keras'."""

    def __new__(cls, *args: KerasArgument, **kwargs: KerasArgument) -> Self:
        return _in_scope(super().__new__(cls, *args, **kwargs))

    def compile(self, *args: KerasArgument, evaluation_steps_per_execution: int | None = None, **options: KerasArgument) -> None:
        """As `keras.Model.compile`; steps that were traced for an earlier one are traced again.

        Replicas add up what a metric adds to its variables, as in tf.distribute: a metric of your own that assigns (a moving average)
        needs variables with another ``aggregation``; for a maximum there is none, and `evaluate` gives it. And replicas weigh their losses
        by rows, as fits a mean. Losses that are given here may also be sums over the rows: functions are tried, with two rows and with
        four. The values of a loss that is neither (`keras.losses.Dice`) are averaged over the replicas, by rows.

        Under parameter servers, ``steps_per_execution`` is how many steps go to a worker at once, as one closure; "auto" takes as few as
        keep the messages of closures below 5 % of the time, as forecast from the devices and the network, and no more than a worker's share
        of an epoch. (Keras 3 has no tuner of its own: the word does nothing else.) So many batches of `evaluate` and `predict` go to a
        worker at once, too; one with "auto", and where batches depend on each other. In rounds (``mode="sync"`` and ``"bounded"``) each
        step is a closure, whatever is given.

        With ``run_eagerly=True`` the Python code of layers, of the loss, of metrics and of steps of the user's own runs in every step,
        with values, as in Keras on JAX: it may print them, stop in a debugger, decide by them, and raise errors. Numbers are those of the
        compiled steps up to the rounding of single operations, and virtual times are the same; it is slow. Before the first step the code
        runs once more, to find what the step does: without values, as when Keras builds a model, or, if it needs values, with those of the
        first batch. Updates take place after the code: with several replicas or workers new weights are not there in a ``train_step``.
        Which variables change must not depend on values. The rule of an optimizer stays compiled.

        Args:
            args, options: those of Keras.
            evaluation_steps_per_execution: batches of an evaluation, a validation or a prediction between two calls of hooks, under a
                strategy; under parameter servers those of a closure. Default as for training. It is not saved with the model, as Keras
                has no such argument.

        Raises:
            InvalidArgumentError: under a strategy, steps_per_execution that is no number; "auto" under another strategy than parameter
                servers.
            TypeError: under a strategy, an `sd.Optimizer` or a transformation of Optax.
            FailedPreconditionError: run_eagerly=True where numerics="off"; or it is called in a scope, and the model was made outside.
        """
        self._join()
        strategy = self.simdist_strategy
        if strategy is None and strategy_of_models() is not None:
            raise made_outside(self, "compile")
        if strategy is not None:
            arguments = compile_arguments(args, options)
            require_compile_options(arguments, isinstance(strategy, ParameterServerStrategy))
            if arguments.get("run_eagerly"):
                require_numbers(self, "run_eagerly=True")
        if evaluation_steps_per_execution is not None:
            if strategy is None:
                raise InvalidArgumentError("evaluation_steps_per_execution= is for models under a strategy; leave it out.")
            whole_number(evaluation_steps_per_execution, "evaluation_steps_per_execution", 1)
        # What Keras makes here, the mean loss and metrics given by name, belongs to the model's strategy, wherever compile is called.
        with nullcontext() if strategy is None else strategy.scope():
            super().compile(*args, **options)
        if self.optimizer is not None:
            note_model(self.optimizer, self)
        self.simdist_state.forget_steps()
        self.simdist_state.evaluation_executions = evaluation_steps_per_execution

    def compile_from_config(self, config: dict[str, KerasArgument]) -> None:
        """Compile as a saved model was; the optimizer's slots are made by the strategy when it trains."""
        if type(self).compile is not _Distributed.compile:
            super().compile_from_config(config)
            return
        self.compile(**cast(dict[str, KerasArgument], keras.saving.deserialize_keras_object(config)))
        if not self.built or self.optimizer is None:
            return
        if self.simdist_strategy is None:
            self.optimizer.build(self.trainable_variables)
        else:
            prepare_optimizer(self)

    def simdist_build_slots(self) -> None:
        if not (self.built and self.compiled) or self.optimizer is None or self.optimizer.built:
            return
        if self.simdist_strategy is not None:
            prepare_optimizer(self)
        else:
            self.optimizer.build(self.trainable_variables)

    def save(self, filepath: KerasArgument, overwrite: bool = True, zipped: bool | None = None, **options: KerasArgument) -> None:
        """As `keras.Model.save`; the file appears whole or not at all, and takes the virtual time of the disk of this program's task.

        Launched mains all save, each to a path of its own, or to one path, and the last one to finish wins; see
        `load_model` of plain Keras for what can read it.

        Raises:
            ResourceExhaustedError: the disk is full; a file that was there before stays as it was.
        """
        if zipped is False or (not overwrite and Path(filepath).exists()) or Path(filepath).suffix not in FILES_OF_MODELS:
            super().save(filepath, overwrite=overwrite, zipped=zipped, **options)
            return
        with saved_file(self, filepath, self.simdist_strategy) as path:
            super().save(path, zipped=zipped, **options)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """A model with the same weights and optimizer state, of the strategy in scope; outside of every scope, of its own strategy."""
        del memo  # the copy is made of a file, and has no part of this model
        strategy = self.simdist_strategy if strategy_of_models() is None else None
        with nullcontext() if strategy is None else strategy.scope():
            make, arguments = cast("tuple[Callable[..., Self], tuple[object, ...]]", self.__reduce__())
            return make(*arguments)

    def __copy__(self) -> Self:
        """As `copy.deepcopy`: two models never share variables."""
        return self.__deepcopy__({})

    def save_weights(self, filepath: KerasArgument, overwrite: bool = True, max_shard_size: float | None = None) -> None:
        """As `keras.Model.save_weights`; otherwise as `save`."""
        refused_by_keras = not str(filepath).endswith(".weights.h5")
        if max_shard_size is not None or (not overwrite and Path(filepath).exists()) or refused_by_keras:
            super().save_weights(filepath, overwrite=overwrite, max_shard_size=max_shard_size)
            return
        with saved_file(self, filepath, self.simdist_strategy) as path:
            super().save_weights(path)

    def load_weights(self, filepath: KerasArgument, skip_mismatch: bool = False, **options: KerasArgument) -> None:
        """As `keras.Model.load_weights`; a compiled model gets the optimizer's slots as well.

        The file comes from the disk of this program's task, and the values travel to the tasks that hold them, as for a checkpoint.

        Raises:
            UnavailableError: a task is down that holds a part of the model, or cannot be reached; nothing is changed.
        """
        if self.simdist_strategy is not None and self.built and self.compiled and self.optimizer is not None:
            prepare_optimizer(self)
        load_file(self, filepath, self.simdist_strategy)
        with nullcontext() if self.simdist_strategy is None else self.simdist_strategy.between_updates():
            super().load_weights(filepath, skip_mismatch=skip_mismatch, **options)

    def set_weights(self, weights: KerasArgument) -> None:
        """As `keras.Model.set_weights`. Like each assignment outside of a step it takes no virtual time, and waits for no task.

        Raises:
            UnavailableError: a task is down that holds a part of the model; nothing is changed.
        """
        require_holders(self, with_optimizer=False)
        super().set_weights(weights)

    def fit(self, x: Examples = None, y: Examples = None, *args: KerasArgument, **options: KerasArgument) -> keras.callbacks.History:
        """Train, as `keras.Model.fit` does, on the devices of the strategy.

        Losses are read at the end of each epoch, and after each batch where a callback reads them. Under parameter servers hooks of batches
        follow the closures that have ended, in the order in which they end. A ``train_step`` of the user's own runs as it is, in Keras'
        stateless form for JAX. Launched mains call callbacks of their own; what reads losses of batches, or weights, is given to each of
        them, as they read together. On a cluster with numerics="off" the run has its times, and a history without losses; launched mains do
        not gather there the logs of a ``train_step`` that no metric counts.

        Without steps_per_epoch an epoch visits each example once: under parameter servers batches are handed out by number, and one whose
        worker dies is given to another. (Its update may then count twice, unless the strategy has exactly_once=True.)

        Args:
            x: a `Dataset`, arrays (with `y`), a distributed dataset, or a `DatasetCreator`; a generator, a `keras.utils.PyDataset`, a
                DataLoader of torch or a tf.data.Dataset, whose elements are batches. Without steps_per_epoch, the datasets that a
                creator makes for the workers are read to their end, each batch by any worker.
            y: targets, where x is arrays.
            args, options: those of Keras, in its order: batch_size, epochs, verbose, callbacks, validation_split, validation_data,
                shuffle (default: arrays are shuffled, and so are the batches of a PyDataset), class_weight, sample_weight,
                initial_epoch, steps_per_epoch, validation_steps, validation_batch_size, validation_freq. What gives batches brings
                their order, targets and weights, and is refused together with those.

        Returns:
            `keras.callbacks.History`.

        Raises:
            InvalidArgumentError: options or callbacks that cannot be followed, no data, steps_per_epoch is missing where the data
                have no end, or a loss is not finite (and no TerminateOnNaN watches it, and no LossScaleOptimizer skips such steps).
            TypeError: `x` is of no kind that is known, or an option that Keras does not know.
            FailedPreconditionError: the model overrides ``make_train_function``, or has a train_step(self, data) for another backend.
            OutOfRangeError: under parameter servers, the data of a worker ran out before the steps were done. Elsewhere that ends the
                training with a warning, as in Keras 2.
        """
        if not self._is_distributed("fit"):
            return super().fit(**readable_by_keras("fit", self, (x, y, *args), options))
        self._assert_compile_called("fit")
        return fit(self, x, y, *args, **options)

    def evaluate(self, x: Examples = None, y: Examples = None, *args: KerasArgument, **options: KerasArgument) -> Result:
        """Loss and metrics on data, as `keras.Model.evaluate` gives them, with all hooks of callbacks; it takes virtual time.

        The replicas of a synchronous strategy share each batch. Under parameter servers workers take whole batches; each counts once, also
        where a worker dies. A launched main evaluates by itself, on its first replica, so that it may do so alone. Where batches depend on
        each other (layers that change in a test step, logs that are no metrics), one replica or worker takes them in turn, as Keras does;
        so it is where rows of a batch do, as far as shapes of outputs say so (each row against each other). Another dependence of rows,
        such as ``x - mean(x, axis=0)``, is among the rows of one replica. The metrics of training stay as they were.

        Args:
            x: as for `fit`. Of what was distributed the plain dataset is read; a function of an `InputContext` makes a single
                pipeline, and needs `steps`.
            y: targets, where x is arrays.
            args, options: those of Keras, in its order: batch_size, verbose, sample_weight, steps, callbacks, return_dict.

        Raises:
            InvalidArgumentError: options or callbacks that cannot be followed, no data, or data without an end and no `steps`.
            TypeError: `x` is of no kind that is known, or an option that Keras does not know.
            FailedPreconditionError: numerics="off", or the model overrides ``make_test_function``.
        """
        if not self._is_distributed("evaluate"):
            return super().evaluate(**readable_by_keras("evaluate", self, (x, y, *args), options))
        self._assert_compile_called("evaluate")
        return evaluate(self, x, y, *args, **options)

    def predict(self, x: Examples, *args: KerasArgument, **options: KerasArgument) -> Tree:
        """Outputs for data, in its order; computed where `evaluate` is.

        Args:
            x: as for `evaluate`.
            args, options: those of Keras, in its order: batch_size, verbose, steps, callbacks.

        Raises:
            InvalidArgumentError, TypeError, FailedPreconditionError: as for `evaluate`.
        """
        if not self._is_distributed("predict"):
            return super().predict(**readable_by_keras("predict", self, (x, *args), options))
        return predict(self, x, *args, **options)

    def train_on_batch(self, x: Examples, *args: KerasArgument, **options: KerasArgument) -> Result:
        """One step on one batch, as `keras.Model.train_on_batch`; the batch is shared among the replicas, or given to one worker.

        Args:
            x: arrays of the batch.
            args, options: those of Keras, in its order: y, sample_weight, class_weight, return_dict.

        Returns:
            Loss and metrics of this batch: a list, or with return_dict=True by name.

        Raises:
            InvalidArgumentError: x is a dataset, or as for `fit`.
        """
        if not self._is_distributed("train_on_batch"):
            return super().train_on_batch(x, *args, **options)
        self._assert_compile_called("train_on_batch")
        return train_on_batch(self, x, *args, **options)

    def test_on_batch(self, x: Examples, y: Examples = None, sample_weight: Examples = None, return_dict: bool = False) -> Result:
        """Loss and metrics of one batch; computed as by `evaluate`."""
        if not self._is_distributed("test_on_batch"):
            return super().test_on_batch(x, y, sample_weight, return_dict)
        self._assert_compile_called("test_on_batch")
        return evaluate(self, x, y, steps=1, verbose=0, sample_weight=sample_weight, return_dict=return_dict)

    def predict_on_batch(self, x: Examples) -> Tree:
        """Outputs for one batch; computed as by `predict`."""
        return predict(self, x, steps=1, verbose=0) if self._is_distributed() else super().predict_on_batch(x)

    @property
    def distribute_strategy(self) -> Strategy:
        """The strategy that the model belongs to, as Keras has it with TensorFlow; of one that belongs to none, that of `get_strategy`.

        Example:
            >>> import simdist as sd
            >>> from simdist import keras
            >>> with sd.MirroredStrategy(2).scope():
            ...     model = keras.Sequential([keras.layers.Dense(1)])
            >>> model.distribute_strategy.num_replicas_in_sync
            2
        """
        strategy: Strategy = get_strategy() if self.simdist_strategy is None else self.simdist_strategy
        return strategy

    def _is_distributed(self, caller: str = "") -> bool:
        """Whether the model belongs to a strategy.

        Raises:
            FailedPreconditionError: only some of what it is made of does; or it does not, and this method of it is called in a scope.
        """
        self._join()
        if self.simdist_strategy is None:
            require_no_strategy_inside(self)
            if caller and strategy_of_models() is not None:
                raise made_outside(self, caller)
        return self.simdist_strategy is not None

    def _join(self) -> None:
        """Belong to the strategy of all layers, where the model was made outside of every scope: to look at those inside, for example."""
        if self.simdist_strategy is None and not self.compiled:
            self.simdist_state.strategy = strategy_inside(self)


class Model(_Distributed):
    """`keras.Model` that knows strategies; functional and subclassed."""

    def __new__(cls, *args: KerasArgument, **kwargs: KerasArgument) -> Self:
        if cls is Model and functional_init_arguments(args, kwargs):
            return Functional(*args, **kwargs)
        return super().__new__(cls)

    def __init__(self, *args: KerasArgument, **kwargs: KerasArgument) -> None:
        if functional_init_arguments(args, kwargs) and not isinstance(self, KerasFunctional):
            _make_functional(type(self))
        super().__init__(*args, **kwargs)


class Functional(Model, KerasFunctional):
    """The class of ``Model(inputs, outputs)``."""

    def __new__(cls, *args: KerasArgument, **kwargs: KerasArgument) -> Self:
        return _in_scope(KerasFunctional.__new__(cls, *args, **kwargs))


class Sequential(_Distributed, keras.Sequential):
    """`keras.Sequential` that knows strategies."""

    def __new__(cls, *args: KerasArgument, **kwargs: KerasArgument) -> Self:
        return _in_scope(keras.Sequential.__new__(cls))

    def build(self, input_shape: KerasArgument = None) -> None:
        """Make the variables of all layers; where that is refused, as in a step, the model is as it was, without an input shape."""
        layers = self._layers
        try:
            super().build(input_shape)
        except InvalidArgumentError:
            self._layers = layers
            raise


class Distiller(keras.distillation.Distiller, Model):  # pyright: ignore[reportIncompatibleMethodOverride] # Keras' own two differ
    """`keras.distillation.Distiller` that knows strategies.

    What it tracks beside `loss` is the mean over the replicas, each of which counts the same, whatever rows it has.
    """


def _in_scope(model: NewModel) -> NewModel:
    """A new model, which belongs to the strategy in scope."""
    object.__setattr__(model, "simdist_state", TrainingState(strategy_of_models()))
    return model


def _make_functional(cls: type) -> None:
    """Put `Functional` in the place of `Model` among the bases of a class; other classes of models stay as they are."""
    for base in cls.__bases__:
        if base is not Model and issubclass(base, Model):
            _make_functional(base)
    cls.__bases__ = tuple(Functional if base is Model else base for base in cls.__bases__)


saving.install(Model, Sequential, Functional, Distiller)
