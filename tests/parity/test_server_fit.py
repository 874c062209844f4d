"""fit, evaluate and predict under parameter servers (CONFORMANCE B199 to B203, B234 to B239)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import CancelledError, OutOfRangeError

X = np.arange(12, dtype=np.float32)[:, None] / 12
ROWS = sd.Dataset.from_tensor_slices((X, 2 * X))


def on_servers(workers: int = 2, **options: Any) -> tuple[sd.Cluster, Any]:
    cluster = sd.Cluster({"worker": workers, "ps": 1}, seed=0)
    with sd.ParameterServerStrategy(cluster, **options).scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    return cluster, model


def test_b199_a_creator_checks_what_it_is_given_and_what_it_gets() -> None:
    with pytest.raises(TypeError, match="DatasetCreator was given 3"):
        sd.DatasetCreator(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="input_options is 3"):
        sd.DatasetCreator(lambda context: ROWS.batch(2), 3)  # type: ignore[arg-type]
    _, model = on_servers()
    with pytest.raises(TypeError, match="returned list; expected a Dataset"):
        model.fit(sd.DatasetCreator(lambda context: [X]), steps_per_epoch=2, verbose=0)  # type: ignore[arg-type,return-value]


def test_b200_a_dataset_of_a_worker_that_ends_too_early_is_an_error() -> None:
    _, model = on_servers()
    with pytest.raises((OutOfRangeError, CancelledError)):
        model.fit(sd.DatasetCreator(lambda context: ROWS.batch(4)), steps_per_epoch=40, verbose=0)
    with pytest.raises(sd.errors.InvalidArgumentError, match="steps_per_epoch"):
        model.fit(sd.DatasetCreator(lambda context: ROWS.batch(4).repeat()), steps_per_epoch=-1, verbose=0)


def test_b201_the_stream_of_a_worker_goes_on_in_the_next_epoch() -> None:
    made: list[int] = []

    def dataset_fn(context: sd.InputContext) -> sd.Dataset:
        made.append(context.input_pipeline_id)
        return sd.Dataset.from_tensor_slices((X, X)).batch(1)

    _, model = on_servers(workers=1)
    seen = model.fit(sd.DatasetCreator(dataset_fn), epochs=3, steps_per_epoch=4, verbose=0).history["mae"]
    assert len(seen) == 3  # twelve rows, each once: a fresh iterator would not run out, and one step more would
    with pytest.raises(OutOfRangeError):
        model.fit(sd.DatasetCreator(dataset_fn), epochs=4, steps_per_epoch=4, verbose=0)
    assert set(made) == {0}


@pytest.mark.parametrize("workers", [1, 3])
def test_b202_predict_gives_all_rows_in_their_order(workers: int) -> None:
    _, model = on_servers(workers)
    model.set_weights([np.float32([[3.0]]), np.float32([0.5])])
    np.testing.assert_allclose(model.predict(ROWS.batch(5), steps=3, verbose=0), 3 * X + 0.5, rtol=1e-6, atol=1e-6)
    assert model.predict(ROWS.batch(5), steps=2, verbose=0).shape == (10, 1)


def test_b203_evaluation_is_exact_by_default_and_needs_an_end() -> None:
    cluster, model = on_servers(3)
    cluster.faults.crash("worker:0", at=0.0005, restart_after=0.001)
    found = model.evaluate(ROWS.batch(1), verbose=0, return_dict=True)
    assert found["mae"] == pytest.approx(float(np.mean(2 * X)), rel=1e-6)
    with pytest.raises(sd.errors.InvalidArgumentError, match="no end"):
        model.evaluate(ROWS.batch(1).repeat(), verbose=0)


def test_b237_weights_that_vanish_are_passed_over_and_unavailability_is_raised(tmp_path: Path) -> None:
    with sd.OneDeviceStrategy().scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.save_weights(tmp_path / "2.weights.h5")

    class Vanishing(sd.SidecarEvaluator):
        def _load(self, path: Path) -> None:
            if path.name.startswith("2"):
                path.unlink()
                model.save_weights(tmp_path / "3.weights.h5")
            super()._load(path)

    with pytest.warns(UserWarning, match=r"passes over .*2\.weights\.h5.*vanished"):
        (found,) = Vanishing(model, ROWS.batch(4), tmp_path, max_evaluations=1).start()
    assert found.path.name == "3.weights.h5"


def test_b239_an_evaluation_by_closures_reads_its_metric_after_join() -> None:
    """The tutorial's way, with a metric on the chief."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}))
    with strategy.scope():
        accuracy = keras.metrics.MeanAbsoluteError()
    coordinator = sd.ClusterCoordinator(strategy)

    @sd.function
    def eval_fn(iterator: Any) -> None:
        features, labels = next(iterator)
        strategy.run(lambda: accuracy.update_state(labels, features))

    def whole(context: sd.InputContext) -> sd.Dataset:
        return ROWS.shard(context.num_input_pipelines, context.input_pipeline_id).batch(2).repeat()

    iterator = iter(coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(whole)))
    for _ in range(6):
        coordinator.schedule(eval_fn, args=(iterator,))
    coordinator.join()
    assert float(accuracy.count.numpy()) == 12
    assert float(accuracy.result()) == pytest.approx(float(np.mean(X)), rel=0.2)
