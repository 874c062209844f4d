"""Keras models in the scope of a strategy: those that do not know strategies are refused before they train on one device."""

from __future__ import annotations

import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError, ResourceExhaustedError

X, Y = np.ones((8, 3), np.float32), np.ones((8, 1), np.float32)


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_a_plain_model_whose_variables_belong_to_a_strategy_is_refused_by_name(method: str, inside: bool) -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        model = plain.Sequential([plain.Input((3,)), plain.layers.Dense(1)])
    before = [np.asarray(variable) for variable in model.variables]
    data = (X,) if method == "predict" else (X, Y)
    scope = strategy.scope() if inside else plain.name_scope("outside")
    with scope, pytest.raises(FailedPreconditionError, match=r"on one device\. Make the model with simdist\.keras\.Model"):
        getattr(model, method)(*data, verbose=0)
    for one, other in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(one, np.asarray(other))


def test_a_weight_that_this_machine_cannot_hold_is_refused_before_xla_ends_the_process() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}, numerics="off"))
    with strategy.scope():
        table = plain.layers.Embedding(10**12, 256, name="users")
        with pytest.raises(ResourceExhaustedError, match=r'users/embeddings of shape .* needs 931\.3 TiB .* numerics="off"'):
            table.build()
        small = plain.layers.Embedding(10, 4)
        small.build()
    assert [variable.shape for variable in strategy.variables] == [(10, 4)]


def test_an_array_that_was_assigned_may_be_written_to_again() -> None:
    memory = np.empty(64 + 16, np.float32)
    start = -memory.ctypes.data % 64 // 4  # where XLA takes an array as it is, and copies nothing
    array = memory[start : start + 64].reshape(64, 1)
    with sd.MirroredStrategy(2).scope():
        layer = sd.keras.layers.Dense(1, use_bias=False)
        layer.build((None, 64))
    for assign in (layer.kernel.assign, lambda value: layer.set_weights([value])):
        array[:] = 1.0
        assign(array)
        array[:] = 9.0
        assert np.unique(layer.kernel.numpy()).tolist() == [1.0]


@pytest.mark.parametrize("make", [plain.metrics.MeanSquaredError, plain.metrics.AUC, plain.metrics.RootMeanSquaredError])
def test_a_metric_is_updated_across_the_replicas_with_what_was_gathered(make: type[plain.metrics.Metric]) -> None:
    strategy, alone = sd.MirroredStrategy(2), make()
    with strategy.scope():
        metric = make()
    scores = np.array([0.1, 0.8, 0.6, 0.4], np.float32)
    labels = np.array([0.0, 1.0, 0.0, 1.0], np.float32)

    @sd.function
    def evaluate(part: sd.PerReplica) -> None:
        strategy.run(metric.update_state, args=(labels[:2], scores[:2]))
        metric.update_state(labels, strategy.gather(part, axis=0))

    for _ in range(2):
        evaluate(sd.PerReplica([scores[:2], scores[2:]]))
        for rows in (slice(2), slice(2), slice(4)):
            alone.update_state(labels[rows], scores[rows])
    np.testing.assert_allclose(float(metric.result()), float(alone.result()), rtol=1e-6)
