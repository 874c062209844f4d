"""The table in README of what Keras does under each strategy: each cell is a run that plain Keras judges.

``python tests/keras_table.py`` writes it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import keras as plain
import numpy as np

import simdist as sd
from simdist import keras

__all__ = ["BEGIN", "COLUMNS", "END", "README", "ROWS", "block", "found", "said", "table"]

README = Path(__file__).resolve().parents[1] / "README.md"
BEGIN, END = "<!-- keras: begin -->", "<!-- keras: end -->"
RTOL = 1e-4
STEPS = 20
BATCH = 8
X = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
Y = np.tanh(X.sum(1, keepdims=True))

COLUMNS: dict[str, Callable[[], Any]] = {
    "Mirrored": lambda: sd.MirroredStrategy(2),
    "TPU": lambda: sd.TPUStrategy(sd.TPUClusterResolver("v4-8")),
    "MultiWorkerMirrored": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "CentralStorage": lambda: sd.CentralStorageStrategy(2),
    "ParameterServer": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2}), mode="sync"),
    "OneDevice": sd.OneDeviceStrategy,
}


def made(k: Any, kind: type | None = None) -> Any:
    first, last = (k.layers.Dense(units, activation, kernel_initializer="ones") for units, activation in ((5, "tanh"), (1, None)))
    model: Any = (kind or k.Sequential)([k.Input((4,)), first, last])
    model.compile(k.optimizers.Adam(0.02), "mse", metrics=["mae"])
    return model


def with_its_own_step(k: Any) -> Any:
    class Custom(k.Sequential):
        def train_step(self, state: Any, data: Any) -> Any:
            logs, state = super().train_step(state, data)
            return {**logs, "ten": 10.0}, state

    return made(k, Custom)


@dataclass(frozen=True)
class Plainly:
    """What plain Keras does with a model, once for all strategies: before any step, in each, and after the last."""

    evaluated: list[float]
    predicted: np.ndarray
    logs: list[dict[str, float]]
    weights: list[np.ndarray]


@cache
def plainly(make: Callable[[Any], Any]) -> Plainly:
    model = make(plain)
    evaluated, predicted = model.evaluate(X, Y, verbose=0), model.predict(X, verbose=0)
    logs: list[dict[str, float]] = []
    for step in range(STEPS):
        at = step * BATCH % len(X)
        model.reset_metrics()
        logs.append(model.train_on_batch(X[at : at + BATCH], Y[at : at + BATCH], return_dict=True))
    return Plainly(evaluated, predicted, logs, model.get_weights())


def require_weights(model: Any, expected: Plainly) -> None:
    for one, other in zip(model.get_weights(), expected.weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=RTOL, atol=1e-6)


def require_those_of_keras(strategy: Any, make: Callable[[Any], Any]) -> None:
    """Train as plain Keras does, step by step."""
    expected = plainly(make)
    model = made_in(strategy, make)
    # Where workers go in rounds, each takes a batch of its own.
    parts = 2 if isinstance(strategy, sd.ParameterServerStrategy) else 1
    batches = sd.Dataset.from_tensor_slices((X, Y)).batch(BATCH // parts).repeat()
    found = model.fit(batches, epochs=STEPS, steps_per_epoch=parts, verbose=0).history
    for step, logs in enumerate(expected.logs):
        for name, value in logs.items():
            np.testing.assert_allclose(found[name][step], value, rtol=RTOL)
    require_weights(model, expected)


def made_in(strategy: Any, make: Callable[[Any], Any] = made) -> Any:
    with strategy.scope():
        return make(keras)


def fits(strategy: Any) -> None:
    require_those_of_keras(strategy, made)


def takes_a_step(strategy: Any) -> None:
    require_those_of_keras(strategy, with_its_own_step)


def loops(strategy: Any) -> None:
    """A loop of one's own, against that of Keras."""
    parts = 2 if isinstance(strategy, sd.ParameterServerStrategy) else 1
    model = made_in(strategy)
    optimizer = sd.Optimizer(model.optimizer)
    batches = sd.Dataset.from_tensor_slices((X, Y)).batch(BATCH // parts).repeat()

    @sd.function
    def train_step(iterator: Any) -> Any:
        def replica_step(x: Any, y: Any) -> None:
            def loss() -> Any:
                return sd.compute_average_loss((model(x, training=True) - y)[:, 0] ** 2, global_batch_size=BATCH // parts)

            _, gradients = sd.value_and_grad(loss, model.trainable_variables)()
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

        strategy.run(replica_step, args=next(iterator))

    if isinstance(strategy, sd.ParameterServerStrategy):
        coordinator = sd.ClusterCoordinator(strategy)
        iterator = iter(coordinator.create_per_worker_dataset(_of_worker))
        for _ in range(STEPS * parts):
            coordinator.schedule(train_step, args=(iterator,))
        coordinator.join()
    else:
        iterator = iter(strategy.distribute_dataset(batches))
        for _ in range(STEPS):
            train_step(iterator)
    require_weights(model, plainly(made))


def _of_worker() -> sd.Dataset:
    """Each worker takes its half of each batch."""
    worker = sd.get_current_worker_index()
    rows = np.arange(len(X)).reshape(-1, 2, BATCH // 2)[:, worker].ravel()
    return sd.Dataset.from_tensor_slices((X[rows], Y[rows])).batch(BATCH // 2).repeat()


def estimates(strategy: Any) -> None:
    """A canned Estimator, against gradient descent in numpy."""
    parts = 2 if isinstance(strategy, sd.ParameterServerStrategy) else strategy.num_replicas_in_sync

    def input_fn(input_context: sd.InputContext) -> sd.Dataset:
        batches = sd.Dataset.from_tensor_slices(({"x": X}, Y)).batch(BATCH // parts)
        return batches.shard(input_context.num_input_pipelines, input_context.input_pipeline_id).repeat()

    with tempfile.TemporaryDirectory() as folder:
        config = sd.estimator.RunConfig(folder, train_distribute=strategy)
        columns = [sd.feature_column.numeric_column("x", shape=4)]
        regressor = sd.estimator.LinearRegressor(columns, optimizer=plain.optimizers.SGD(0.1), config=config)
        # Where workers go in rounds, each counts its steps.
        regressor.train(input_fn, steps=STEPS * (parts if isinstance(strategy, sd.ParameterServerStrategy) else 1))
        found = [regressor.get_variable_value(name) for name in regressor.get_variable_names()]
    rows, weights = np.column_stack([X, np.ones(len(X))]), np.zeros((5, 1))
    for step in range(STEPS):
        at = step * BATCH % len(X)
        batch, labels = rows[at : at + BATCH], Y[at : at + BATCH]
        weights -= 0.1 * 2 * batch.T @ (batch @ weights - labels) / BATCH
    np.testing.assert_allclose(next(one for one in found if one.shape == (4, 1)), weights[:4], rtol=RTOL, atol=1e-6)


def evaluates(strategy: Any) -> None:
    model, expected = made_in(strategy), plainly(made)
    np.testing.assert_allclose(model.evaluate(X, Y, verbose=0), expected.evaluated, rtol=RTOL)
    np.testing.assert_allclose(model.predict(X, verbose=0), expected.predicted, rtol=RTOL, atol=1e-6)


def saves(strategy: Any) -> None:
    model = made_in(strategy)
    model.fit(X, Y, verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        with strategy.scope():
            loaded = keras.models.load_model(path)
    np.testing.assert_allclose(loaded.predict(X, verbose=0), model.predict(X, verbose=0), rtol=RTOL, atol=1e-6)


NOT_IN_THE_GUIDE = {
    "a training loop of your own": ("MultiWorkerMirrored", "CentralStorage", "ParameterServer"),
    "an `Estimator`": ("Mirrored", "TPU", "MultiWorkerMirrored", "CentralStorage", "ParameterServer", "OneDevice"),
}
"""Cells that TensorFlow's guide to distributed training lists as planned, limited, or not supported."""

ROWS: dict[str, Callable[[Any], None]] = {
    "`fit`": fits,
    "a `train_step` of your own": takes_a_step,
    "a training loop of your own": loops,
    "an `Estimator`": estimates,
    "`evaluate`, `predict`": evaluates,
    "`save`, `load_model`": saves,
}


def cell(check: Callable[[Any], None], make: Callable[[], Any]) -> str:
    try:
        check(make())
    except (AssertionError, sd.errors.SimdistError) as error:
        return f"no: {type(error).__name__}"
    return "yes"


def found(row: str, column: str) -> str:
    """What a cell says when it is run."""
    return f"{cell(ROWS[row], COLUMNS[column])}{'*' if column in NOT_IN_THE_GUIDE.get(row, ()) else ''}"


def table(said: Callable[[str, str], str] = found) -> str:
    """The table; by default each of its cells is run."""
    lines = [f"| Keras | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines += [f"| {row} | {' | '.join(said(row, column) for column in COLUMNS)} |" for row in ROWS]
    lines += ["", "\\* planned, limited or not supported in TensorFlow's guide to distributed training."]
    return "\n".join(lines)


def block(text: str) -> tuple[str, str, str]:
    """What stands in a README before the table, between its markers, and after it."""
    before, _, rest = text.partition(BEGIN)
    inside, _, after = rest.partition(END)
    return before, inside.strip("\n"), after


def said(text: str) -> dict[tuple[str, str], str]:
    """What the cells of a table say, by row and column."""
    head, _, *lines = ([part.strip() for part in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|"))
    return {(row, column): one for row, *cells in lines for column, one in zip(head[1:], cells, strict=True)}


if __name__ == "__main__":
    before, _, after = block(README.read_text(encoding="utf-8"))
    README.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")
