"""Logs of a train_step that are results of metrics with other names: the same as under plain Keras, whichever replica has seen what."""

from __future__ import annotations

from typing import Any

import jax
import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras

X = np.random.default_rng(0).normal(size=(21, 3)).astype(np.float32)
Y = X.sum(1, keepdims=True) ** 2

SERVED: dict[str, Any] = {
    "workers of servers": {},
    "workers in rounds": {"mode": "sync"},
    "several devices": {"devices_per_worker": 2},
}

STRATEGIES: dict[str, Any] = {
    "mirrored": lambda: sd.MirroredStrategy(2),
    "several workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "one worker of servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})),
}


def spread_of(k: Any) -> Any:
    class Spread(k.metrics.Metric):
        """A result of two parts."""

        def __init__(self) -> None:
            super().__init__(name="spread")
            self.total, self.rows = (self.add_variable((), "zeros", name=name) for name in ("total", "rows"))

        def update_state(self, values: Any, sample_weight: Any = None) -> None:
            self.total.assign(self.total + k.ops.sum(values))
            self.rows.assign(self.rows + len(values))

        def result(self) -> Any:
            return {"mean": self.total / self.rows, "double": 2.0 * self.total / self.rows}

    return Spread()


def model_of(k: Any) -> Any:
    class Tracked(k.Sequential):
        """Its log "loss" is the result of a metric "total_loss"; "first" is one of a state that it does not keep."""

        def __init__(self, layers: Any) -> None:
            super().__init__(layers)
            self.total_loss, self.spread = k.metrics.Mean(name="total_loss"), spread_of(k)

        @property
        def metrics(self) -> list[Any]:
            return [self.total_loss, self.spread]

        def train_step(self, state: Any, data: Any) -> Any:
            trained, others, slots, counts = state
            x, y = data

            def loss(trained: Any) -> Any:
                return k.ops.mean((self.stateless_call(trained, others, x)[0] - y) ** 2)

            value, gradients = jax.value_and_grad(loss)(trained)
            trained, slots = self.optimizer.stateless_apply(slots, gradients, trained)
            total = self.total_loss.stateless_update_state(counts[:2], value, sample_weight=len(x))
            spread = self.spread.stateless_update_state(counts[2:], y)
            alone = self.total_loss.stateless_update_state([0.0 * count for count in counts[:2]], value, sample_weight=len(x))
            logs = {"loss": self.total_loss.stateless_result(total), **self.spread.stateless_result(spread)}
            logs["first"] = self.total_loss.stateless_result(alone)
            return logs, (trained, others, slots, [*total, *spread])

    model = Tracked([k.Input((3,)), k.layers.Dense(1, kernel_initializer="ones")])
    model.compile(k.optimizers.SGD(0.01))
    return model


def fitted(model: Any, seen: list[float]) -> dict[str, list[float]]:
    batches = plain.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(logs["loss"]))
    return model.fit(X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0, callbacks=[batches]).history


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.sample(2)
def test_a_log_is_the_result_of_its_metric_whatever_its_name(strategy: str) -> None:
    expected_batches, batches = list[float](), list[float]()
    expected = fitted(model_of(plain), expected_batches)
    with STRATEGIES[strategy]().scope():
        model = model_of(keras)
    found = fitted(model, batches)
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(batches, expected_batches, rtol=1e-5)


def test_workers_in_rounds_count_together() -> None:
    with sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), mode="sync").scope():
        model = model_of(keras)
    data = sd.Dataset.from_tensor_slices((X[:16], Y[:16])).batch(4).repeat()
    history = model.fit(data, steps_per_epoch=4, epochs=1, verbose=0).history
    np.testing.assert_allclose(history["mean"], [Y[:16].mean()], rtol=1e-5)
    np.testing.assert_allclose(history["loss"], [float(model.total_loss.result())], rtol=1e-6)


def logs_of(k: Any, names: tuple[str, str], logs_of_results: Any) -> dict[str, list[float]]:
    """What `fit` logs of a model with two metrics of these names, where the step logs their results so."""

    class Named(k.Sequential):
        def __init__(self, layers: Any) -> None:
            super().__init__(layers)
            self.root, self.absolute = k.metrics.RootMeanSquaredError(name=names[0]), k.metrics.MeanAbsoluteError(name=names[1])

        @property
        def metrics(self) -> list[Any]:
            return [self.root, self.absolute]

        def train_step(self, state: Any, data: Any) -> Any:
            trained, others, slots, counts = state
            prediction = self.stateless_call(trained, others, data[0])[0]
            root = self.root.stateless_update_state(counts[:2], data[1], prediction)
            absolute = self.absolute.stateless_update_state(counts[2:], data[1], prediction)
            logs = logs_of_results(self.root.stateless_result(root), self.absolute.stateless_result(absolute))
            return logs, (trained, others, slots, [*root, *absolute])

    model = Named([k.Input((3,)), k.layers.Dense(1, kernel_initializer="ones")])
    model.compile(k.optimizers.SGD(0.01))
    return model.fit(X, Y, batch_size=8, shuffle=False, verbose=0).history


LOGS: dict[str, Any] = {
    "two metrics of one name": (("error", "error"), lambda root, absolute: {"error": root, "other": absolute}),
    "names that are exchanged": (("root", "absolute"), lambda root, absolute: {"root": absolute, "absolute": root, "third": root}),
    "logs in a dict": (("root", "absolute"), lambda root, absolute: {"errors": {"first": root, "second": {"third": absolute}}}),
}


@pytest.mark.sample
@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_log_is_the_result_of_its_own_metric_where_another_one_has_the_name(strategy: str, kind: str) -> None:
    expected = logs_of(plain, *LOGS[kind])
    with STRATEGIES[strategy]().scope():
        found = logs_of(keras, *LOGS[kind])
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, err_msg=name)


def collected(k: Any, counts_first: bool, x: Any, **options: Any) -> tuple[dict[str, list[float]], list[float]]:
    """What `fit` logs, and the batches' log "f", of a model that overrides both methods by which Keras collects results."""

    class Collecting(k.Sequential):
        def __init__(self, layers: Any) -> None:
            super().__init__(layers)
            self.hits, self.misses = k.metrics.Sum(name="hits"), k.metrics.Sum(name="misses")

        def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
            results = {} if counts_first else super().compute_metrics(x, y, y_pred, sample_weight)
            self.hits.update_state(k.ops.cast(y_pred > y, "float32"))
            self.misses.update_state(k.ops.cast(y_pred <= y, "float32"))
            results = super().compute_metrics(x, y, y_pred, sample_weight) if counts_first else results
            return results | {"caught": self.hits.result(), "of a batch": 2.0 * self.hits.result()}

        def get_metrics_result(self) -> Any:
            hits, misses = self.hits.result(), self.misses.result()
            return {**super().get_metrics_result(), "f": hits / (hits + 3.0 * misses)}

    model, seen = Collecting([k.Input((3,)), k.layers.Dense(1, kernel_initializer="ones")]), list[float]()
    model.compile(k.optimizers.SGD(0.0), "mse", metrics=["mae"])
    batches = plain.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(logs["f"]))
    return model.fit(x, epochs=2, verbose=0, callbacks=[batches], **options).history, seen


@pytest.mark.sample(4)
@pytest.mark.parametrize("strategy", [*STRATEGIES, *SERVED])
def test_what_get_metrics_result_computes_is_of_all_rows_also_where_compute_metrics_adds_logs(strategy: str) -> None:
    expected, expected_batches = collected(plain, True, X, y=Y, batch_size=8, shuffle=False)
    served = SERVED.get(strategy)
    chosen = STRATEGIES[strategy]() if served is None else sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), **served)
    data = sd.Dataset.from_tensor_slices((X, Y)).batch(8)
    with chosen.scope():
        found, batches = collected(keras, True, data)
        late, _ = collected(keras, False, data)
    assert list(found) == list(expected)
    for name in set(expected) - {"of a batch"}:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(batches[2::3], expected_batches[2::3], rtol=1e-5)  # the closures of a round end together
    # Where they count after the results are collected, plain Keras gives those before the last batch; these are of all.
    np.testing.assert_allclose(late["f"], expected["f"], rtol=1e-5)
