"""`predict`: one pass of the prediction step over data; the outputs come in the order of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import keras
import numpy as np
from keras.src import backend
from keras.src.trainers.data_adapters.data_adapter_utils import unpack_x_y_sample_weight

from simdist.data import Dataset
from simdist.program.arrays import Tree
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.strategies.synchronous import SynchronousStrategy
from simdist.training.arguments import require_inherited, require_numbers, require_options
from simdist.training.callbacks import usable
from simdist.training.evaluation.executions import batches_per_execution, count_batches, executions
from simdist.training.evaluation.passes import AlonePass, Parts, Pass, PassInTurn, ReplicaPass, WorkerPass
from simdist.training.evaluation.steps import given_values, keep_changed, prediction_step
from simdist.training.hooks import hooks_of
from simdist.training.keras_model import Callbacks, Examples, ForwardStep, StrategyModel, Verbose, strategy_of
from simdist.training.limits import limited_steps
from simdist.training.sources import Source, data_and_first, evaluation_source
from simdist.training.step import Example
from simdist.training.stepping_strategies import stepping

__all__ = ["predict"]


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
    require_numbers(model, "predict")
    given = usable(callbacks, model)
    source = evaluation_source("predict", x, None, None, batch_size, steps)
    with source.epoch(), strategy_of(model).evaluating(alone=True):
        return _predicted(model, source, steps, given, verbose)


def _predicted(model: StrategyModel, source: Source, steps: int | None, callbacks: Callbacks, verbose: Verbose) -> Tree:
    """One pass of the prediction step over data."""
    data, batch = data_and_first("predict", source)
    if not model.built or not (model.simdist_state.is_built or model.simdist_has_layers()):
        _make_layers(model, batch)
    steps = limited_steps(steps, count_batches(source, steps))
    hooks = hooks_of(callbacks, model, verbose, steps=count_batches(source, steps))
    model.stop_predicting = False
    hooks.call.on_predict_begin()
    one_pass, keep_state = _pass_of(model, data, steps, prediction_step(model, batch))
    outputs: list[Parts] = []
    with one_pass:
        for execution in executions(model, one_pass, steps):
            hooks.call.on_predict_batch_begin(execution.first)
            taken = execution.take()
            outputs += taken
            hooks.call.on_predict_batch_end(execution.last, {"outputs": _joined(taken)} if hooks.reads_outputs else {})
            if model.stop_predicting:
                break
    keep_state()
    hooks.call.on_predict_end()
    return _joined(outputs)


def _pass_of(model: StrategyModel, source: Dataset, steps: int | None, step: ForwardStep) -> tuple[Pass, Callable[[], None]]:
    """The pass, and what assigns to layers what it has changed of them."""
    strategy = stepping(strategy_of(model), "predict")
    alone = isinstance(strategy, SynchronousStrategy) and strategy.launched  # the outputs of other mains would be missing
    given = given_values(model, step, alone)
    if not step.may_be_split:
        in_turn = PassInTurn(strategy, source, step.step, given)
        return in_turn, lambda: keep_changed(model, step, in_turn.state)
    if isinstance(strategy, ParameterServerStrategy):
        return WorkerPass(strategy, source, step.step, given, steps, batches_per_execution(model)), _keep_nothing
    kind = AlonePass if alone else ReplicaPass
    return kind(strategy, source, step.step, given), _keep_nothing


def _keep_nothing() -> None:
    """Layers are as they were."""


def _make_layers(model: StrategyModel, batch: Example) -> None:
    """Make the model's variables for batches of this shape, in the scope of its strategy; a loss and metrics need targets, too."""
    x, _, _ = unpack_x_y_sample_weight(batch.value())
    symbols = keras.tree.map_structure(lambda array: keras.KerasTensor(array.shape, backend.standardize_dtype(array.dtype)), x)
    with strategy_of(model).scope():
        backend.compute_output_spec(model, symbols, training=False)


def _joined(outputs: Sequence[Parts]) -> Tree:
    """The outputs of some batches, row after row."""
    parts = [part for taken in outputs for part in taken()]
    return jax.tree_util.tree_map(lambda *arrays: np.concatenate([np.asarray(array) for array in arrays]), *parts)
