"""Evaluation and prediction, computed by the chief from the present values of the variables.

The steps are Keras' own (``test_step``, ``predict_step``), and so are the hooks and the logs. What a step changes of the
model (the state of a recurrent layer) is kept when all batches are done; metrics of training stay as they were.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import jax
import keras
import numpy as np
from keras.src import backend
from keras.src.trainers.data_adapters.data_adapter_utils import unpack_x_y_sample_weight
from keras.src.utils.python_utils import pythonify_logs

from simdist.data import DatasetIterator
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.arrays import Array, Tree
from simdist.training.arguments import require_inherited, require_options
from simdist.training.callbacks import callback_list, usable
from simdist.training.keras_model import (
    Callbacks,
    CompiledStep,
    Examples,
    Logs,
    StrategyModel,
    Verbose,
    fixed_steps_per_execution,
    strategy_of,
)
from simdist.training.sources import Source, evaluation_source, first_batch, gives_batches
from simdist.training.step import Example, build
from simdist.variables.keras_objects import KerasVariable
from simdist.variables.optimizer import as_variable

__all__ = ["Validation", "evaluate", "metric_values", "predict"]


def evaluate(
    model: StrategyModel,
    x: Examples = None,
    y: Examples = None,
    batch_size: int | None = None,
    verbose: Verbose = "auto",
    sample_weight: Examples = None,
    steps: int | None = None,
    callbacks: Callbacks = None,
    return_dict: bool = False,
) -> Logs | float | list[float]:
    """See `simdist.keras.Model.evaluate`."""
    require_inherited(model, "evaluate")
    require_options(verbose, batch_size=batch_size, steps=steps)
    given = usable(callbacks, training=False)
    source = evaluation_source("evaluate", x, y, sample_weight, batch_size, steps)
    with source.epoch(reset=True):
        logs = _tested(model, source, steps, given, verbose)
    return logs if return_dict else model.simdist_listed(logs)


def predict(
    model: StrategyModel,
    x: Examples,
    batch_size: int | None = None,
    verbose: Verbose = "auto",
    steps: int | None = None,
    callbacks: Callbacks = None,
) -> Tree:
    """See `simdist.keras.Model.predict`."""
    require_inherited(model, "predict")
    require_options(verbose, batch_size=batch_size, steps=steps)
    given = usable(callbacks, training=False)
    source = evaluation_source("predict", x, None, None, batch_size, steps)
    with source.epoch():
        return _predicted(model, source, steps, given, verbose)


def _predicted(model: StrategyModel, source: Source, steps: int | None, callbacks: Callbacks, verbose: Verbose) -> Tree:
    """One pass of ``predict_step`` over the data."""
    iterator = iter(source)
    first = first_batch("predict", iterator)
    if not model.built:
        _make_layers(model, first)
    hooks = callback_list(callbacks, model, verbose, steps=_count(source, steps))
    model.stop_predicting = False
    hooks.on_predict_begin()
    variables = model.non_trainable_variables
    trained, before = _values(model.trainable_variables), _values(variables)
    state = before
    step = _compiled(model, "predict_step")
    outputs: list[Tree] = []
    for begin, end, batches in _executions(model, iterator, steps):
        hooks.on_predict_batch_begin(begin)
        made: list[Tree] = []
        for batch in batches:
            output, state = step((trained, state), batch if isinstance(batch, tuple) else (batch,))
            made.append(jax.tree_util.tree_map(np.asarray, output))
        outputs += made
        hooks.on_predict_batch_end(end, {"outputs": _joined(made)})
        if model.stop_predicting:
            break
    _keep(variables, before, state)
    hooks.on_predict_end()
    return _joined(outputs)


def metric_values(model: StrategyModel) -> Logs:
    """The present values of the metrics; none where the cluster computes no numbers."""
    strategy = strategy_of(model)
    if strategy.engine.numerics == "off":
        return {}
    strategy.store.compute([as_variable(variable) for variable in model.metrics_variables])
    return pythonify_logs(strategy.observe(model.get_metrics_result))


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
        if strategy_of(model).engine.numerics == "off":
            raise FailedPreconditionError('numerics="off" computes no losses; leave validation_data out, or use numerics="deferred".')
        require_inherited(model, "evaluate")
        size = own_batch_size if gives_batches(data) else own_batch_size or batch_size
        x, y, weight = (data, None, None) if gives_batches(data) else unpack_x_y_sample_weight(data)
        self.source = evaluation_source("validation_data", x, y, weight, size, steps)

    def logs(self, epoch: int, callbacks: Callbacks) -> Logs:
        """Loss and metrics after an epoch, from 0, named val_...; nothing where none are due."""
        number, frequency = epoch + 1, self.frequency
        due = number % frequency == 0 if isinstance(frequency, int) else number in frequency
        if self.source is None or not due:
            return {}
        with self.source.epoch(reset=True):
            values = _tested(self.model, self.source, self.steps, callbacks, verbose=0)
        return {f"val_{name}": value for name, value in values.items()}


def _checked_frequency(frequency: int | Sequence[int]) -> int | Sequence[int]:
    numbers = frequency if isinstance(frequency, list) else [frequency]
    if not all(isinstance(number, int) and not isinstance(number, bool) and number > 0 for number in numbers):
        raise InvalidArgumentError(f"validation_freq={frequency!r}; expected a number of epochs from 1, or a list of epochs.")
    return frequency


def _tested(model: StrategyModel, source: Source, steps: int | None, callbacks: Callbacks, verbose: Verbose) -> Logs:
    """One pass of ``test_step`` over the data, and the logs that Keras makes of it."""
    iterator = iter(source)
    build(model, first_batch("evaluate", iterator))
    hooks = callback_list(callbacks, model, verbose, steps=_count(source, steps))
    saved = [np.asarray(v.value) for v in model.metrics_variables]
    model.stop_evaluating = False
    hooks.on_test_begin()
    model.reset_metrics()
    variables = (model.trainable_variables, model.non_trainable_variables, model.metrics_variables)
    before = state = tuple(_values(part) for part in variables)
    step = _compiled(model, "test_step")
    logs: Tree = {}
    for begin, end, batches in _executions(model, iterator, steps):
        hooks.on_test_batch_begin(begin)
        for batch in batches:
            logs, state = step(state, batch)
        hooks.on_test_batch_end(end, logs)
        if model.stop_evaluating:
            break
    for part, old, new in zip(variables[:2], before, state, strict=False):
        _keep(part, old, new)
    _restore(model.metrics_variables, state[2])
    values = metric_values(model)
    _restore(model.metrics_variables, saved)
    # As in Keras: a test_step of the user's own may give other logs than the metrics.
    found = values if set(values) == set(logs) else pythonify_logs(logs)
    hooks.on_test_end(found)
    return found


def _make_layers(model: StrategyModel, batch: Example) -> None:
    """Make the model's variables for batches of this shape, in the scope of its strategy; a loss and metrics need targets, too."""
    x, _, _ = unpack_x_y_sample_weight(batch.value())
    symbols = keras.tree.map_structure(lambda array: keras.KerasTensor(array.shape, backend.standardize_dtype(array.dtype)), x)
    with strategy_of(model).scope():
        backend.compute_output_spec(model, symbols, training=False)


def _compiled(model: StrategyModel, name: str) -> CompiledStep:
    """A step of Keras, compiled for the model as it is: which of its variables are trainable says which value belongs to which."""
    trainable = [id(variable) for variable in model.trainable_variables]
    known = model.simdist_state.chief_steps.get(name)
    if known is None or known[0] != trainable:

        def step(state: Tree, data: Tree) -> tuple[Tree, tuple[Tree, ...]]:
            return getattr(model, name)(state, data)

        known = model.simdist_state.chief_steps[name] = trainable, jax.jit(step)
    return known[1]


def _count(source: Source, steps: int | None) -> int | None:
    """The number of steps that a progress bar shows."""
    found = source.num_batches
    return steps if found is None else found if steps is None else min(found, steps)


def _executions(model: StrategyModel, iterator: DatasetIterator, steps: int | None) -> Iterator[tuple[int, int, list[Tree]]]:
    """First number, last number and batches of what callbacks see as one: as many steps as the model was compiled for."""
    size, done = fixed_steps_per_execution(model) or 1, 0
    batches: list[Tree] = []
    while steps is None or done < steps:
        try:
            batches.append(iterator.next_batch().value())
        except StopIteration:
            if steps is not None:
                warnings.warn(f"The dataset ran out after {done} of {steps} steps.", stacklevel=5)
            break
        done += 1
        if len(batches) == size:
            yield done - size, done - 1, batches
            batches = []
    if batches:
        first = done - len(batches)
        yield first, first + size - 1, batches


def _joined(outputs: Sequence[Tree]) -> Tree:
    return jax.tree_util.tree_map(lambda *parts: np.concatenate(parts), *outputs)


def _values(variables: Sequence[KerasVariable]) -> list[jax.Array]:
    return [variable.value for variable in variables]


def _restore(variables: Sequence[KerasVariable], values: Sequence[Array]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _keep(variables: Sequence[KerasVariable], before: Sequence[Array], after: Sequence[Array]) -> None:
    """Assign the values that have changed."""
    for variable, old, new in zip(variables, before, after, strict=True):
        if not np.array_equal(np.asarray(old), np.asarray(new)):
            variable.assign(new)
