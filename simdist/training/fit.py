"""The training loop: epochs, steps, logs and callbacks, the same for every strategy.

Metrics are reset at the start of an epoch and read at its end, and after each batch where a callback asks for that. Under parameter servers
the steps of an epoch are closures, several steps each if the model was compiled so; elsewhere they run one after the other (`runners`).
What fit takes is the business of `sources`, what it refuses that of `arguments` and `callbacks`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import suppress

import keras

from simdist.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnavailableError,
)
from simdist.training.arguments import require_inherited, require_options
from simdist.training.callbacks import usable
from simdist.training.evaluation.validation import Validation
from simdist.training.hooks import Hooks, hooks_of
from simdist.training.keras_model import Callbacks, Examples, Logs, StrategyModel, Verbose
from simdist.training.limits import limited_epochs, limited_steps
from simdist.training.position import TrainingPosition
from simdist.training.runners import Runner, runner_of
from simdist.training.sources import Source, count_steps, is_spent, split_arrays, training_source
from simdist.training.step import finish, require_same_variables
from simdist.variables.keras_objects import is_scaling

__all__ = ["fit"]

# After these the variables may be out of reach, or no longer belong together.
OF_THE_CLUSTER = (UnavailableError, AbortedError, CancelledError, DeadlineExceededError, ResourceExhaustedError)


def fit(
    model: StrategyModel,
    x: Examples = None,
    y: Examples = None,
    batch_size: int | None = None,
    epochs: int = 1,
    verbose: Verbose = "auto",
    callbacks: Callbacks = None,
    validation_split: float = 0.0,
    validation_data: Examples = None,
    shuffle: bool | None = None,
    class_weight: dict[int, float] | None = None,
    sample_weight: Examples = None,
    initial_epoch: int = 0,
    steps_per_epoch: int | None = None,
    validation_steps: int | None = None,
    validation_batch_size: int | None = None,
    validation_freq: int | Sequence[int] = 1,
) -> keras.callbacks.History:
    """See `simdist.keras.Model.fit`."""
    require_inherited(model, "fit")
    counts = {"batch_size": batch_size, "steps_per_epoch": steps_per_epoch}
    counts |= {"validation_steps": validation_steps, "validation_batch_size": validation_batch_size}
    require_options(verbose, epochs, initial_epoch, **counts)
    given = usable(callbacks, model)
    if validation_split and validation_data is None:
        (x, y, sample_weight), validation_data = split_arrays(x, y, sample_weight, validation_split)
    weights = {"sample_weight": sample_weight, "class_weight": class_weight}
    source = training_source(model, x, y, shuffle, batch_size, steps_per_epoch, **weights)
    steps = count_steps(source, steps_per_epoch)
    epochs, steps = limited_epochs(epochs), limited_steps(steps, steps)
    validation = Validation(model, validation_data, batch_size, validation_batch_size, validation_steps, validation_freq)
    with source.epoch():  # the first batch is read once before, to build the model
        runner = runner_of(model, source)
    hooks = hooks_of(given, model, verbose, epochs=epochs, steps=steps, history=True)
    outer = model.simdist_state.position  # of a fit whose callback calls this one
    try:
        _train(model, source, runner, steps, range(initial_epoch, epochs), hooks, validation)
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        if not isinstance(error, OF_THE_CLUSTER) and runner.is_quiet:
            with suppress(Exception):  # the first error is the one that is raised
                finish(model, together=False)
        raise
    finally:
        model.simdist_state.position = outer  # that of this fit holds the input
    return model.history


def _train(
    model: StrategyModel, source: Source, runner: Runner, steps: int | None, epochs: range, hooks: Hooks, validation: Validation
) -> None:
    """The loop: epochs with their hooks."""
    may_diverge = any(isinstance(callback, keras.callbacks.TerminateOnNaN) for callback in hooks.call.callbacks)
    logs: Logs = {}
    model.stop_training = False
    position = model.simdist_state.position = TrainingPosition(runner, hooks.call.callbacks, epochs.start, steps, model, validation)
    hooks.call.on_train_begin()
    position.begin()
    for epoch in range(epochs.stop if position.is_over else position.epoch, epochs.stop):
        done = position.begin_epoch(epoch)
        if not done:
            model.reset_metrics()
        runner.settle()
        hooks.call.on_epoch_begin(epoch)
        require_same_variables(model)
        with source.epoch():
            runner.epoch(steps, hooks, done)
        logs = dict(runner.logs())
        if not may_diverge:
            _require_finite(model, logs, epoch)
        logs.update(validation.logs(epoch, hooks))
        runner.settle()
        hooks.call.on_epoch_end(epoch, logs)
        if model.stop_training or is_spent(source, runner.has_next, epochs.stop - epoch - 1):
            break
    runner.settle()
    finish(model)
    hooks.call.on_train_end(logs)


def _require_finite(model: StrategyModel, logs: Logs, epoch: int) -> None:
    """Refuse to go on with weights of no use; an optimizer with a loss scale has left out the steps that make them so."""
    loss = logs.get("loss", 0.0)
    if not isinstance(loss, (int, float)) or math.isfinite(loss):
        return
    if is_scaling(model.optimizer):
        warnings.warn(
            f"The loss of an epoch is {loss}. {type(model.optimizer).__name__} skips each step whose gradients are not finite, so "
            "the weights are those of the other steps. If it stays so, look at the data; keras.callbacks.TerminateOnNaN ends the training.",
            stacklevel=5,
        )
        return
    raise InvalidArgumentError(
        f"The loss of epoch {epoch + 1} is {loss}. Lower the learning rate, clip the gradients (clipnorm=1.0), or look at "
        "the data; sd.check_numerics in a step finds the first value that is not finite."
    )
