"""`Estimator`: a model function, trained from checkpoint to checkpoint under any strategy.

Every call of `train`, `evaluate` and `predict` begins with the newest checkpoint of its directory, so calls in one program, in several
mains or on another day go on from each other. The three share that directory, and nothing else.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import jax
import numpy as np

from simdist.arguments import flag, whole_number
from simdist.checkpoint import latest_checkpoint
from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.estimator.absent_names import OF_ESTIMATORS
from simdist.estimator.functions import called_model_fn, dataset_function, require_model_fn
from simdist.estimator.listeners import CheckpointSaverListener, checked_listeners
from simdist.estimator.model_directory import with_directory
from simdist.estimator.predictions import chosen, examples
from simdist.estimator.run_config import RunConfig
from simdist.estimator.runners import DatasetFunction, ReplicaRunner, Runner, training_runner
from simdist.estimator.saved_steps import latest_step, restored_step, saved_values, value_of
from simdist.estimator.specs import EstimatorSpec, InputFunction, MetricResults, ModeKeys, refuse_hooks
from simdist.estimator.strategies import Strategies, serves
from simdist.estimator.summaries import Summaries
from simdist.estimator.training_loop import TrainingLoop
from simdist.program.arrays import HostArray, Tree
from simdist.runtime.base import Engine
from simdist.strategies.absent_names import WithAbsentNames
from simdist.strategies.base import Strategy

if TYPE_CHECKING:  # it loads Keras, which an import of simdist does not
    from simdist.estimator.built_model import BuiltModel

__all__ = ["Estimator"]

log = logging.getLogger("simdist")


class Estimator(WithAbsentNames):
    """Trains, evaluates and predicts with a model function; the strategy is an option of its `RunConfig`.

    ``model_fn(features, labels, mode, params, config)`` computes with JAX and Keras: it makes layers, metrics and an optimizer, and returns
    an `EstimatorSpec`. It may leave arguments out, apart from `features`. It is called in a trace, as under ``@sd.function``, when the
    variables are made and again for each new shape of batches, and has to make the same layers each time: each variable exists once.

    ``input_fn()`` returns an `sd.Dataset` of pairs (features, labels), or of features alone. It is called once for each worker (with
    parameter servers once more, on the chief, for the shapes), and its batches are those of one replica: N replicas take N batches in a
    step. At the end of the data some replicas may have none; but where ``batch(n, drop_remainder=True)`` makes all batches full, a step of
    fewer batches than replicas is not taken, as with tf.distribute. It may name the arguments ``input_context`` (an `sd.InputContext`, to
    shard by), ``mode``, ``params`` and ``config``. Words have to be looked up in it: steps compute with numbers.

    Args:
        model_fn: the model function.
        model_dir: directory of checkpoints and event files; default that of `config`, or a new temporary one. Tasks of a cluster need one
            that all of them share.
        config: how to train; default ``RunConfig()``.
        params: for model_fn and input_fn.
        warm_start_from: to be left out; load weights in model_fn.

    Raises:
        TypeError: model_fn is no function, config no `RunConfig`, or params no dict.
        InvalidArgumentError: model_fn takes other arguments, the two directories differ, or tasks of a cluster have none.

    Example:
        >>> import numpy as np
        >>> import simdist as sd
        >>> from simdist import keras
        >>> def model_fn(features, labels, mode):
        ...     prediction = keras.layers.Dense(1, kernel_initializer="zeros")(features)
        ...     if mode == sd.estimator.ModeKeys.PREDICT:
        ...         return sd.estimator.EstimatorSpec(mode, predictions=prediction)
        ...     loss = keras.losses.MeanSquaredError()(labels, prediction)
        ...     return sd.estimator.EstimatorSpec(mode, loss=loss, train_op=keras.optimizers.SGD(0.1))
        >>> def input_fn():
        ...     x = np.linspace(0, 1, 8, dtype="float32")[:, None]
        ...     return sd.Dataset.from_tensor_slices((x, 2 * x)).batch(4).repeat()
        >>> config = sd.estimator.RunConfig(train_distribute=sd.MirroredStrategy(2))
        >>> estimator = sd.estimator.Estimator(model_fn, config=config).train(input_fn, steps=100)
        >>> result = estimator.evaluate(input_fn, steps=2)
        >>> result["global_step"], result["loss"] < 0.02
        (100, True)
    """

    absent_names = OF_ESTIMATORS

    def __init__(
        self,
        model_fn: Callable[..., EstimatorSpec],
        model_dir: str | os.PathLike[str] | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        warm_start_from: None = None,
    ) -> None:
        if config is not None and not isinstance(cast("object", config), RunConfig):
            raise TypeError(f"config is {config!r}; expected an sd.estimator.RunConfig")
        if warm_start_from is not None:
            raise InvalidArgumentError(
                f"warm_start_from={warm_start_from!r} is not known here. Let model_fn make layers with these weights."
            )
        if params is not None and not isinstance(cast("object", params), Mapping):
            raise TypeError(f"params is {params!r:.200}; expected a dict, such as {{'rate': 0.1}}")
        require_model_fn(model_fn, params)
        self.config = with_directory(config or RunConfig(), model_dir)
        self._model_fn = model_fn
        self._params = copy.deepcopy(dict(params or {}))
        self._strategies = Strategies(self.config)
        self._models: dict[ModeKeys, BuiltModel] = {}

    @property
    def model_dir(self) -> str:
        """The directory of checkpoints and event files."""
        assert isinstance(self.config.model_dir, str)
        return self.config.model_dir

    @property
    def params(self) -> dict[str, Any]:
        """A copy of what model_fn and input_fn get."""
        return copy.deepcopy(self._params)

    # -- training -------------------------------------------------------------------------------------------------

    def train(
        self,
        input_fn: InputFunction,
        hooks: Sequence[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[CheckpointSaverListener] | None = None,
    ) -> Self:
        """Train, from the newest checkpoint on.

        Args:
            input_fn: returns the dataset.
            hooks: to be left out.
            steps: how many; called twice, it trains twice as many.
            max_steps: the number of the last step; called twice, it trains once. Default of both: to the end of the data, which is, with
                parameter servers, that of the first worker. Launched mains that train together need equally many batches then.
            saving_listeners: called at each checkpoint; one can end the training.

        Returns:
            The Estimator itself.

        Raises:
            InvalidArgumentError: both steps and max_steps, or numbers below 1; hooks; a task that does not train; data without an end and
                no number of steps; or a loss that is no number, in any step: nothing is saved of it.
            TypeError: input_fn returned no dataset, or something is no listener.
            OutOfRangeError: there are no data.
        """
        self.train_as_task(input_fn, hooks, steps, max_steps, saving_listeners, 0.0)
        return self

    def train_as_task(
        self,
        input_fn: InputFunction,
        hooks: Sequence[Any] | None,
        steps: int | None,
        max_steps: int | None,
        saving_listeners: Sequence[CheckpointSaverListener] | None,
        max_delay_s: float,
    ) -> None:
        """Train as `train` does; workers of parameter servers begin one after the other.

        Args:
            input_fn, hooks, steps, max_steps, saving_listeners: as of `train`.
            max_delay_s: virtual seconds, after which the last worker begins.
        """
        refuse_hooks(hooks)
        listeners = checked_listeners(saving_listeners)
        _require_steps(steps, max_steps)
        if serves(self.config) or self.config.task_type == "evaluator":
            raise InvalidArgumentError(
                f"train was called on {self.config.task_type}:{self.config.task_id}, which does not train. Call "
                "sd.estimator.train_and_evaluate, which does on each task what is right there."
            )
        strategy = self._strategies.training
        if max_steps is not None and not strategy.launched and latest_step(self.model_dir) >= max_steps:
            log.info("Nothing to train: step %d of %d is saved.", latest_step(self.model_dir), max_steps)
            return
        runner = training_runner(strategy, self._dataset_fn(input_fn, ModeKeys.TRAIN, steps or max_steps), max_delay_s)
        model, first = self._model(ModeKeys.TRAIN, strategy, runner, latest_checkpoint(self.model_dir))
        loop = TrainingLoop(model, runner, self.model_dir, self.config, listeners, first)
        loop.run(max_steps if steps is None else first + steps)

    # -- evaluation and prediction --------------------------------------------------------------------------------

    def evaluate(
        self,
        input_fn: InputFunction,
        steps: int | None = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | os.PathLike[str] | None = None,
        name: str | None = None,
    ) -> MetricResults:
        """Loss and metrics on data, of a checkpoint; without one, of a model with initial values.

        Args:
            input_fn: returns the dataset.
            steps: steps, each of one batch for each replica; None: all.
            hooks: to be left out.
            checkpoint_path: which one; None: the newest.
            name: of the evaluation; its event files are in ``eval_<name>`` of the directory, without a name in ``eval``.

        Returns:
            Results of the metrics by name; "loss", the mean of the batches' losses; and "global_step", the number of trained steps.

        Raises:
            InvalidArgumentError: steps below 1, hooks, data without an end and no steps, or a checkpoint of another model.
            NotFoundError: there is no such checkpoint.
            OutOfRangeError: there are no data.
            TypeError: checkpoint_path is no path.
        """
        refuse_hooks(hooks)
        _require_steps(steps, None)
        directory = self.eval_dir(name)
        strategy = self._strategies.evaluation
        runner = ReplicaRunner(strategy, self._dataset_fn(input_fn, ModeKeys.EVAL, steps))
        model, trained = self._model(ModeKeys.EVAL, strategy, runner, self._path_of(checkpoint_path))
        model.reset_metrics()
        done = 0
        while (steps is None or done < steps) and runner.advance(model.step, 1):
            done += 1
        results = dict(sorted({**model.results(), "global_step": trained}.items()))
        Summaries(directory, strategy.is_chief).write(trained, strategy.engine.now, results)
        return results

    def predict(
        self,
        input_fn: InputFunction,
        predict_keys: str | Sequence[str] | None = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | os.PathLike[str] | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Predictions for data, batch by batch on one device, of a checkpoint; without one, of a model with initial values.

        Args:
            input_fn: returns a dataset of features, or of tuples that begin with them; nobody looks at the rest.
            predict_keys: which of a dict of predictions; None, or an empty list: all.
            hooks: to be left out.
            checkpoint_path: which one; None: the newest.
            yield_single_examples: False gives whole batches.

        Yields:
            For each row what model_fn predicts, of shape (...); or whole batches, of shape (b, ...). Arrays of numpy.

        Raises:
            InvalidArgumentError: other predict_keys, predictions with different numbers of rows, or as `evaluate`.
            NotFoundError, OutOfRangeError, TypeError: as `evaluate`.
        """
        refuse_hooks(hooks)
        by_examples = flag(yield_single_examples, "yield_single_examples")
        strategy = self._strategies.one_device
        runner = ReplicaRunner(strategy, self._dataset_fn(input_fn, ModeKeys.PREDICT, 1))
        model, _ = self._model(ModeKeys.PREDICT, strategy, runner, self._path_of(checkpoint_path))
        del self._models[ModeKeys.PREDICT]  # a prediction that begins before this one ends has a model, and so values, of its own
        try:
            while runner.advance(model.step, 1):
                found = chosen(self._finished(jax.tree_util.tree_map(np.asarray, runner.values())), predict_keys)
                yield from examples(found) if by_examples else [found]
        finally:
            self._models[ModeKeys.PREDICT] = model

    @property
    def evaluation_engine(self) -> Engine:
        """Whose clock an evaluation takes time of."""
        return self._strategies.evaluation.engine

    # -- checkpoints ----------------------------------------------------------------------------------------------

    def latest_checkpoint(self) -> str | None:
        """The path of the newest checkpoint; None where there is none."""
        return latest_checkpoint(self.model_dir)

    def eval_dir(self, name: str | None = None) -> str:
        """The directory of the event files of an evaluation.

        Raises:
            TypeError: the name is no text.
        """
        if name is not None and not isinstance(cast("object", name), str):
            raise TypeError(f"name is {name!r:.200}; expected the name of an evaluation, such as 'test'")
        return str(Path(self.model_dir, f"eval_{name}" if name else "eval"))

    def get_variable_names(self) -> list[str]:
        """The names of the variables in the newest checkpoint.

        Raises:
            InvalidArgumentError: there is none.
        """
        return list(saved_values(self.latest_checkpoint()))

    def get_variable_value(self, name: str) -> HostArray:
        """The value of a variable in the newest checkpoint.

        Raises:
            InvalidArgumentError: there is none.
            NotFoundError: it has no such variable.
        """
        return value_of(self.latest_checkpoint(), name)

    # -- what the calls have in common ----------------------------------------------------------------------------

    def _prepared(self, dataset: Dataset, mode: ModeKeys) -> Dataset:
        """The dataset of input_fn, as model_fn takes it."""
        return dataset

    def _finished(self, predictions: Tree) -> Tree:
        """The predictions of model_fn, as users get them."""
        return predictions

    def _path_of(self, given: str | os.PathLike[str] | None) -> str | None:
        """The path of a checkpoint that was asked for, or of the newest.

        Raises:
            TypeError: it is no path.
        """
        if not isinstance(cast("object", given), (str, os.PathLike, type(None))):
            raise TypeError(f"checkpoint_path is {given!r:.200}; expected the path of a checkpoint, or None for the newest")
        return os.fspath(given) if given else latest_checkpoint(self.model_dir)

    def _dataset_fn(self, input_fn: InputFunction, mode: ModeKeys, steps: int | None) -> DatasetFunction:
        arguments = {"mode": mode, "params": self._params, "config": self.config}
        return dataset_function(input_fn, arguments, steps, lambda dataset: self._prepared(dataset, mode))

    def _model(self, mode: ModeKeys, strategy: Strategy, runner: Runner, path: str | None) -> tuple[BuiltModel, int]:
        """The model for a mode, with the values of a checkpoint (or initial ones), and how many steps they have seen."""
        from simdist.estimator.built_model import BuiltModel

        def model_fn(features: Tree, labels: Tree) -> EstimatorSpec:
            arguments = {"features": features, "labels": labels, "mode": mode, "params": self.params, "config": self.config}
            return called_model_fn(self._model_fn, arguments)

        model = self._models.get(mode)
        if model is None or path is None:
            model = self._models[mode] = BuiltModel(strategy, mode, model_fn, runner.sample(), self.config.tf_random_seed)
        return model, restored_step(model, path)


def _require_steps(steps: int | None, max_steps: int | None) -> None:
    if steps is not None and max_steps is not None:
        raise InvalidArgumentError(f"steps={steps} and max_steps={max_steps} cannot both be given. Give one of them.")
    for name, value in (("steps", steps), ("max_steps", max_steps)):
        if value is not None:
            whole_number(value, name, 1)
