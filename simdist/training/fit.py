"""The training loop: epochs, steps, logs and callbacks, the same for every strategy.

Metrics are reset at the start of an epoch and read at its end. Under parameter servers the steps of an epoch are closures,
several steps each if the model was compiled so; elsewhere they run one after the other.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, cast

import jax
import keras
import numpy as np
from keras.src.callbacks import CallbackList
from keras.src.trainers.data_adapters.data_adapter_utils import unpack_x_y_sample_weight

from simdist.coordinator.coordinator import ClusterCoordinator
from simdist.data import Dataset, DatasetCreator
from simdist.errors import InvalidArgumentError
from simdist.strategies.base import DistributedFromFunction
from simdist.strategies.distributed import DistributedDataset, DistributedIterator
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.training.step import build, finish, train_step_of
from simdist.variables.optimizer import as_variable

__all__ = ["evaluate", "fit", "predict"]


def fit(
    model: Any,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    epochs: int = 1,
    verbose: Any = "auto",
    callbacks: Sequence[Any] | None = None,
    validation_data: Any = None,
    shuffle: bool = True,
    sample_weight: Any = None,
    initial_epoch: int = 0,
    steps_per_epoch: int | None = None,
    validation_steps: int | None = None,
    validation_freq: int = 1,
    validation_batch_size: int | None = None,
) -> Any:
    """See `simdist.keras.Model.fit`."""
    strategy = model.simdist_strategy
    source = _dataset(x, y, sample_weight, batch_size, shuffle)
    steps = _steps(source, steps_per_epoch)
    runner = (_CoordinatedSteps if isinstance(strategy, ParameterServerStrategy) else _LocalSteps)(model, source)
    history = CallbackList(
        callbacks,
        add_history=True,
        add_progbar=verbose != 0,
        model=model,
        verbose=1 if verbose == "auto" else verbose,
        epochs=epochs,
        steps=steps,
    )
    model.stop_training = False
    history.on_train_begin()
    logs: dict[str, Any] = {}
    for epoch in range(initial_epoch, epochs):
        model.reset_metrics()
        history.on_epoch_begin(epoch)
        runner.epoch(steps, history)
        logs = _logs(model)
        _check_loss(logs, epoch, callbacks or ())
        if validation_data is not None and (epoch + 1) % validation_freq == 0:
            values = _validation(model, validation_data, validation_batch_size or batch_size, validation_steps)
            logs.update({f"val_{name}": value for name, value in values.items()})
        history.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    finish(model)
    history.on_train_end(logs)
    return model.history


def _dataset(x: Any, y: Any, sample_weight: Any, batch_size: int | None, shuffle: bool) -> Any:
    if isinstance(x, (Dataset, DatasetCreator, DistributedFromFunction, DistributedDataset)):
        if y is not None:
            raise InvalidArgumentError("y was given together with a dataset, whose elements hold their targets already. Leave y out.")
        return x
    if x is None:
        raise InvalidArgumentError("fit was called without x. Pass an sd.Dataset, an sd.DatasetCreator, or arrays.")
    parts: tuple[Any, ...] = tuple(np.asarray(part) for part in (x, y, sample_weight) if part is not None)
    dataset = Dataset.from_tensor_slices(parts if len(parts) > 1 else next(iter(parts)))
    if shuffle:
        dataset = dataset.shuffle(_length(parts))
    return dataset.batch(batch_size or 32)


def _length(parts: tuple[Any, ...]) -> int:
    return max(1, *(len(part) for part in parts))


def _steps(source: Any, steps_per_epoch: int | None) -> int | None:
    if steps_per_epoch is not None:
        if steps_per_epoch < 1:
            raise InvalidArgumentError(f"steps_per_epoch={steps_per_epoch} must be 1 or more.")
        return steps_per_epoch
    if not isinstance(source, (Dataset, DistributedDataset)):
        raise InvalidArgumentError("steps_per_epoch is missing: a DatasetCreator does not say where an epoch ends. Pass steps_per_epoch=.")
    count = source.cardinality()
    if count == -1:
        raise InvalidArgumentError("steps_per_epoch is missing, and the dataset has no end. Pass steps_per_epoch=.")
    return count if count >= 0 else None


def _logs(model: Any) -> dict[str, Any]:
    strategy = model.simdist_strategy
    strategy.store.compute([as_variable(variable) for variable in model.metrics_variables])
    values = strategy.observe(model.get_metrics_result)
    return {name: float(np.asarray(value)) for name, value in values.items()}


def _check_loss(logs: dict[str, Any], epoch: int, callbacks: Sequence[Any]) -> None:
    watched = any(isinstance(callback, keras.callbacks.TerminateOnNaN) for callback in callbacks)
    if not watched and not math.isfinite(logs.get("loss", 0.0)):
        raise InvalidArgumentError(
            f"The loss of epoch {epoch + 1} is {logs['loss']}. Lower the learning rate, clip the gradients (clipnorm=1.0), or look at "
            "the data; sd.check_numerics in a step finds the first value that is not finite."
        )


class _LocalSteps:
    """Steps on the replicas of a synchronous strategy, one after the other."""

    def __init__(self, model: Any, source: Any) -> None:
        self.model = model
        self.strategy = model.simdist_strategy
        self.source = source
        self.iterator = self._fresh()
        build(model, self.iterator.sample())
        self.step = train_step_of(model)

    def _fresh(self) -> DistributedIterator:
        if isinstance(self.source, DistributedDataset):
            return iter(self.source)
        distribute = (
            self.strategy.distribute_datasets_from_function if isinstance(self.source, DatasetCreator) else self.strategy.distribute_dataset
        )
        return cast(DistributedIterator, iter(distribute(self.source)))

    def epoch(self, steps: int | None, callbacks: Any) -> None:
        if steps is None or (isinstance(self.source, Dataset) and self.source.cardinality() == steps):
            self.iterator = self._fresh()
        done = 0
        while steps is None or done < steps:
            if not self.iterator.has_next():
                if steps is not None:
                    warnings.warn(f"The dataset ran out after {done} of {steps} steps; training stops here.", stacklevel=4)
                    self.model.stop_training = True
                return
            callbacks.on_train_batch_begin(done)
            self.strategy.step(self.step, (self.iterator,), {})
            callbacks.on_train_batch_end(done, {})
            done += 1


class _CoordinatedSteps:
    """Steps as closures on the workers of a parameter-server strategy."""

    def __init__(self, model: Any, source: Any) -> None:
        self.model = model
        self.coordinator = ClusterCoordinator(model.simdist_strategy)
        make = source.dataset_fn if isinstance(source, DistributedFromFunction) else source
        distributed = source if isinstance(source, Dataset) else DistributedFromFunction(make)
        workers = len(model.simdist_strategy.workers)
        if isinstance(source, Dataset):
            # Every worker reads its own part of a dataset that was given whole, again and again.
            distributed = DistributedFromFunction(
                lambda context: source.shard(context.num_input_pipelines, context.input_pipeline_id).repeat()
            )
        self.dataset = self.coordinator.create_per_worker_dataset(distributed)
        self.iterator = iter(self.dataset)
        sample = self._sample(make, workers)
        build(model, sample)
        self.step = train_step_of(model)

    def _sample(self, source: Any, workers: int) -> Any:
        from simdist.data import InputContext

        dataset = source if isinstance(source, Dataset) else source(InputContext(workers, 0, 1))
        return iter(dataset).peek(0)

    def epoch(self, steps: int | None, callbacks: Any) -> None:
        assert steps is not None
        per_closure = int(self.model.steps_per_execution or 1)
        done = 0
        while done < steps:
            count = min(per_closure, steps - done)
            self.coordinator.schedule_steps(self.step, (self.iterator,), {}, count)
            done += count
        self.coordinator.join()


# -- evaluation and prediction, by the chief ----------------------------------------------------------------------------


def _validation(model: Any, data: Any, batch_size: int | None, steps: int | None) -> dict[str, Any]:
    if isinstance(data, Dataset):
        return evaluate(model, data, steps=steps, return_dict=True, verbose=0)
    x, y, weight = unpack_x_y_sample_weight(data)
    return evaluate(model, x, y, sample_weight=weight, batch_size=batch_size, steps=steps, return_dict=True, verbose=0)


def evaluate(
    model: Any,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    verbose: Any = "auto",
    sample_weight: Any = None,
    steps: int | None = None,
    callbacks: Any = None,
    return_dict: bool = False,
) -> Any:
    """See `simdist.keras.Model.evaluate`."""
    iterator = iter(_dataset(x, y, sample_weight, batch_size, shuffle=False))
    build(model, iterator.peek(0))
    saved = [np.asarray(v.value) for v in model.metrics_variables]
    model.reset_metrics()
    state = (
        _values(model.trainable_variables),
        _values(model.non_trainable_variables),
        _values(model.metrics_variables),
    )
    step = model.__dict__.setdefault("_simdist_test_step", jax.jit(lambda state, data: model.test_step(state, data)[1]))
    for number, batch in enumerate(_batches(iterator)):
        if steps is not None and number >= steps:
            break
        state = step(state, batch)
    _restore(model.metrics_variables, state[2])
    logs = _logs(model)
    _restore(model.metrics_variables, saved)
    return logs if return_dict else (list(logs.values()) if len(logs) > 1 else logs["loss"])


def predict(
    model: Any,
    x: Any,
    batch_size: int | None = None,
    verbose: Any = "auto",
    steps: int | None = None,
    callbacks: Any = None,
) -> Any:
    """See `simdist.keras.Model.predict`."""
    iterator = iter(_dataset(x, None, None, batch_size, shuffle=False))
    if not model.built:
        build(model, iterator.peek(0))
    state = (_values(model.trainable_variables), _values(model.non_trainable_variables))
    step = model.__dict__.setdefault("_simdist_predict_step", jax.jit(lambda state, data: model.predict_step(state, data)[0]))
    outputs: list[Any] = []
    for number, batch in enumerate(_batches(iterator)):
        if steps is not None and number >= steps:
            break
        outputs.append(step(state, batch if isinstance(batch, tuple) else (batch,)))
    return jax.tree_util.tree_map(lambda *parts: np.concatenate([np.asarray(part) for part in parts]), *outputs)


def _batches(iterator: Any) -> Any:
    while True:
        try:
            yield iterator.next_batch().value()
        except StopIteration:
            return


def _values(variables: Sequence[Any]) -> list[Any]:
    return [variable.value for variable in variables]


def _restore(variables: Sequence[Any], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
