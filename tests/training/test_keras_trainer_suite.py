"""What the tests of Keras demand of its trainer, demanded of models under strategies.

Source: Keras 3, keras/src/trainers/trainer_test.py; each test names the one whose behaviour it states in words of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import simdist as sd
from beside_keras import STRATEGIES
from sampling import sampled
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
ONES, ZEROS = np.ones((100, 4), np.float32), np.zeros((100, 3), np.float32)
Make = Callable[[Callable[[], Any]], Any]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """CI tries each test under one of two strategies, as the length of its name has it."""
    if "under" in metafunc.fixturenames:
        one = ("mirrored", "one worker")[len(metafunc.function.__name__) % 2]
        metafunc.parametrize("under", sampled(STRATEGIES, [one]), indirect=True)


@pytest.fixture
def under(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes a model in the scope of a strategy."""
    strategy = STRATEGIES[request.param]()

    def make(model: Callable[[], Any]) -> Any:
        with strategy.scope():
            return model()

    yield make


def of_ones(units: int = 3, **options: Any) -> Any:
    """A dense layer of ones, which gives the sum of its inputs."""
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(units, use_bias=False, kernel_initializer="ones")])
    model.compile(**{"optimizer": keras.optimizers.SGD(), "loss": "mse", "metrics": ["mse"]} | options)
    return model


class Steps(keras.callbacks.Callback):
    """Counts hooks, and keeps the keys of their logs."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = self.ended = self.epochs = self.tested = 0
        self.keys: dict[str, list[str]] = {}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs += 1
        self.keys["epoch"] = sorted(logs)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.begun += 1
        self.keys["begin"] = sorted(logs or {})

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.ended += 1
        self.keys["train"] = sorted(logs)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.tested += 1
        self.keys["test"] = sorted(logs)

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        self.keys["predict"] = sorted(logs)


def test_metrics_of_a_model_are_its_loss_those_compiled_and_its_attributes(under: Make) -> None:
    """test_metric_tracking"""

    def make() -> Any:
        model = of_ones()
        model.extra = keras.metrics.MeanSquaredError(name="extra")
        return model

    model = under(make)
    model.fit(ONES, ZEROS, verbose=0)
    assert [metric.name for metric in model.metrics] == ["loss", "compile_metrics", "extra"]
    assert len(model.metrics_variables) == 6 and not model.non_trainable_variables


def test_metrics_of_a_model_inside_are_not_those_of_the_outer_one(under: Make) -> None:
    """test_nested_trainer_metrics, test_multiple_compiles"""

    def make() -> Any:
        inner = of_ones()
        inputs = keras.Input((4,))
        model = keras.Model(inputs, keras.layers.Dense(3)(inner(inputs)))
        model.compile("sgd", "mse", metrics=["mae"])
        return model

    assert list(under(make).fit(ONES, ZEROS, verbose=0).history) == ["loss", "mae"]


def test_the_losses_of_a_layer_of_ones_fall_as_they_do_in_keras(under: Make) -> None:
    """test_fit_flow"""
    history = under(of_ones).fit(ONES, ZEROS, batch_size=20, epochs=3, verbose=0).history
    np.testing.assert_allclose(history["mse"], history["loss"], rtol=1e-6)  # sums in another order, on some processors
    np.testing.assert_allclose(history["loss"], [14.5, 11.5, 8.5], atol=1.0)


def test_evaluate_gives_a_list_of_loss_and_metrics(under: Make) -> None:
    """test_evaluate_flow"""
    found = under(of_ones).evaluate(ONES, ZEROS, batch_size=16, verbose=0)
    assert isinstance(found, list) and found == pytest.approx([16.0, 16.0])


def test_predict_gives_the_structure_of_the_outputs(under: Make) -> None:
    """test_predict_flow_struct, test_nested_input_predict"""

    def make() -> Any:
        inputs = {name: keras.Input((4,), name=name) for name in ("one", "two")}
        first, second = (keras.layers.Dense(3, use_bias=False, kernel_initializer="ones")(part) for part in inputs.values())
        return keras.Model(inputs, {"sum": first + second, "both": [first, second]})

    found = under(make).predict({"one": ONES, "two": 2 * ONES}, batch_size=16, verbose=0)
    np.testing.assert_allclose(found["sum"], 12 * np.ones((100, 3)))
    np.testing.assert_allclose(found["both"][1], 8 * np.ones((100, 3)))


def test_validation_has_its_own_keys(under: Make) -> None:
    """test_fit_with_val_split"""
    model = under(of_ones)
    split = model.fit(ONES, ZEROS, validation_split=0.1, verbose=0).history
    given = model.fit(ONES, ZEROS, validation_data=(ONES[:10], ZEROS[:10]), verbose=0).history
    assert list(split) == list(given) == ["loss", "mse", "val_loss", "val_mse"]


def test_steps_of_a_users_own_add_logs_of_their_own(under: Make) -> None:
    """test_fit_with_custom_train_step, test_evaluate_with_custom_test_step"""

    class Custom(keras.Sequential):
        def train_step(self, state: Any, data: Any) -> Any:
            logs, state = super().train_step(state, data)
            return {**logs, "mine": 10.0}, state

        def test_step(self, state: Any, data: Any) -> Any:
            logs, state = super().test_step(state, data)
            return {**logs, "mine": 5.0}, state

    def make() -> Any:
        model: Any = Custom([keras.Input((4,)), keras.layers.Dense(3)])
        model.compile("sgd", "mse")
        return model

    model = under(make)
    assert model.fit(ONES, ZEROS, verbose=0).history["mine"] == [10.0]
    assert model.evaluate(ONES, ZEROS, verbose=0, return_dict=True)["mine"] == 5.0


def test_an_execution_of_several_steps_is_one_batch_for_hooks(under: Make) -> None:
    """test_steps_per_execution_steps_count"""
    models = [under(lambda count=count: of_ones(steps_per_execution=count)) for count in (3, 1)]
    counted = [Steps(), Steps()]
    for model, steps in zip(models, counted, strict=True):
        model.fit(ONES, ZEROS, batch_size=16, epochs=2, shuffle=False, verbose=0, callbacks=[steps])
    assert [steps.ended for steps in counted] == [2 * 3, 2 * 7]
    np.testing.assert_allclose(models[0].get_weights()[0], models[1].get_weights()[0], rtol=1e-5)


def test_predictions_keep_the_order_of_their_rows(under: Make) -> None:
    """test_predict_preserve_order"""
    x = np.arange(24, dtype=np.float32)[:, None] * np.ones((1, 4), np.float32)
    found = under(lambda: of_ones(1, steps_per_execution=3)).predict(x, batch_size=2, verbose=0)
    np.testing.assert_allclose(found[:, 0], 4 * np.arange(24))


def test_epochs_of_half_the_data_continue_where_the_last_one_ended(under: Make) -> None:
    """test_steps_per_epoch"""
    x, y = np.random.default_rng(0).random((80, 4), np.float32), np.ones((80, 1), np.float32)
    halves, whole = under(lambda: of_ones(1)), under(lambda: of_ones(1))
    options: dict[str, Any] = {"batch_size": 8, "shuffle": False, "verbose": 0}
    halves.fit(x, y, epochs=4, steps_per_epoch=5, **options)
    whole.fit(x, y, epochs=2, **options)
    np.testing.assert_allclose(halves.get_weights()[0], whole.get_weights()[0], rtol=1e-5)


@pytest.mark.filterwarnings("ignore:Limiting")
def test_epochs_and_steps_can_be_limited_for_a_trial(under: Make) -> None:
    """test_max_epochs_and_steps"""
    model, steps = under(of_ones), Steps()
    keras.config.set_max_epochs(2)
    keras.config.set_max_steps_per_epoch(3)
    try:
        model.fit(ONES, ZEROS, batch_size=10, epochs=4, verbose=0, callbacks=[steps])
        model.evaluate(ONES, ZEROS, batch_size=10, verbose=0, callbacks=[steps])
        assert model.predict(ONES, batch_size=10, verbose=0).shape == (30, 3)
        assert model.predict(ONES, batch_size=50, verbose=0).shape == (100, 3)
    finally:
        keras.config.set_max_epochs(None)
        keras.config.set_max_steps_per_epoch(None)
    assert (steps.epochs, steps.begun, steps.tested) == (2, 6, 3)


def test_an_evaluation_does_not_depend_on_the_size_of_batches(under: Make) -> None:
    """test_evaluate_with_different_batch_size_same_loss"""
    model = under(of_ones)
    x = np.random.default_rng(0).random((100, 4), np.float32)
    values = [model.evaluate(x, ZEROS, batch_size=size, verbose=0)[0] for size in (100, 3)]
    assert values[0] == pytest.approx(values[1], rel=1e-5)


@pytest.mark.parametrize(("policy", "scales"), [("mixed_float16", True), ("float32", False)])
def test_half_precision_adds_an_optimizer_that_scales_the_loss(under: Make, policy: str, scales: bool) -> None:
    """test_adds_loss_scaling_optimizer"""

    def make() -> Any:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, dtype=policy)], name="model")
        model.dtype_policy = keras.dtype_policies.get(policy)
        model.compile("sgd", "mse")
        return model

    model = under(make)
    model.fit(ONES, ZEROS, verbose=0)
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer) is scales


def test_layers_are_told_whether_they_train(under: Make) -> None:
    """test_training_arg"""

    class Training(keras.layers.Layer):
        def call(self, x: Any, training: bool = False) -> Any:
            return x if training else x * 0

    def make() -> Any:
        model = keras.Sequential([keras.Input((3,)), Training()])
        model.compile("sgd", "mse")
        return model

    model = under(make)
    x = np.ones((4, 3), np.float32)
    assert model.fit(x, x, verbose=0).history["loss"] == [0.0]
    assert model.evaluate(x, x, verbose=0) == 1.0
    assert not model.predict(x, verbose=0).any()


def test_layers_of_a_model_whose_call_has_no_such_argument_do_not_train(under: Make) -> None:
    class Wrapped(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inside = keras.Sequential([keras.Input((4,)), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5, seed=0)])

        def call(self, x: Any) -> Any:
            return self.inside(x)

    def make() -> Any:
        model = Wrapped()
        model.compile(keras.optimizers.SGD(0.0), "mse")
        return model

    model = under(make)
    ones = np.ones((4, 4), np.float32)
    assert model.fit(ones, ones, batch_size=3, verbose=0).history["loss"][0] < 1e-5  # the second batch has no row for a second replica
    assert model.inside.layers[0].moving_mean.numpy().tolist() == [0.0] * 4


def test_logs_have_the_keys_of_keras(under: Make) -> None:
    """test_callback_methods_keys"""
    model, steps = under(of_ones), Steps()
    model.fit(ONES, ZEROS, validation_data=(ONES, ZEROS), verbose=0, callbacks=[steps])
    model.predict(ONES, verbose=0, callbacks=[steps])
    logs = ["loss", "mse"]
    assert steps.keys["train"] == steps.keys["test"] == logs
    assert steps.keys["epoch"] == [*logs, "val_loss", "val_mse"]
    assert (steps.keys["begin"], steps.keys["predict"]) == ([], ["outputs"])


@pytest.mark.parametrize("call", ["evaluate", "predict"])
def test_a_hook_ends_a_loop(under: Make, call: str) -> None:
    """test_stop_loop"""

    class Stopping(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.count = 0
            self.on_test_batch_end = self.on_predict_batch_end = self.counted

        def counted(self, batch: int, logs: Any = None) -> None:
            self.count += 1
            if self.count == 5:
                setattr(self.model, "stop_evaluating" if call == "evaluate" else "stop_predicting", True)

    stopping = Stopping()
    getattr(under(of_ones), call)(ONES, *([ZEROS] if call == "evaluate" else []), batch_size=4, verbose=0, callbacks=[stopping])
    assert stopping.count == 5


def test_endless_validation_takes_the_steps_that_it_is_given(under: Make) -> None:
    """test_validation_data_infinite_generator"""
    endless = sd.Dataset.from_tensor_slices((ONES, ZEROS)).batch(10).repeat()
    steps = Steps()
    under(of_ones).fit(endless, steps_per_epoch=3, validation_data=endless, validation_steps=4, verbose=0, callbacks=[steps])
    assert (steps.ended, steps.tested) == (3, 4)


def test_constraints_hold_after_training(under: Make) -> None:
    """test_constraints_are_applied"""

    def make() -> Any:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, kernel_constraint="non_neg")])
        model.compile(keras.optimizers.SGD(10.0), "mse")
        return model

    model = under(make)
    model.fit(ONES, -ONES[:, :3], batch_size=100, verbose=0)
    assert model.get_weights()[0].min() == 0.0


def test_predictions_that_draw_random_numbers_draw_others_the_next_time(under: Make) -> None:
    """test_rng_updated_during_predict, test_predict_dropout"""

    class Always(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.generator = keras.random.SeedGenerator(3)

        def call(self, x: Any) -> Any:
            return keras.random.dropout(x, rate=0.5, seed=self.generator)

    model = under(lambda: keras.Sequential([keras.Input((4,)), Always()]))
    assert np.abs(model.predict(ONES, verbose=0) - model.predict(ONES, verbose=0)).mean() > 0.01
    quiet = under(lambda: keras.Sequential([keras.Input((4,)), keras.layers.Dropout(0.5)]))
    np.testing.assert_array_equal(quiet.predict(ONES, verbose=0), ONES)


def test_hooks_can_change_variables_of_the_model(under: Make) -> None:
    """test_callbacks_can_update_state_at_batch_boundary"""

    class Counting(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.trained.assign_add(1)

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.tested.assign_add(1)

    def make() -> Any:
        model = of_ones()
        model.trained, model.tested = (keras.Variable(0.0, trainable=False, name=name) for name in ("trained", "tested"))
        return model

    model = under(make)
    model.fit(ONES, ZEROS, batch_size=25, epochs=3, verbose=0, callbacks=[Counting()], validation_data=(ONES[:50], ZEROS[:50]))
    assert (float(model.trained.numpy()), float(model.tested.numpy())) == (12.0, 6.0)


def test_compute_loss_may_count_metrics_and_see_the_losses_of_layers(under: Make) -> None:
    """test_metric_update_in_compute_loss, test_fwd_pass_loss_presence_in_compute_loss"""

    class Counting(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.custom, self.added = keras.metrics.Mean(name="custom"), keras.metrics.Mean(name="added")
            self.dense = keras.layers.Dense(3, activity_regularizer="l2")

        def call(self, x: Any) -> Any:
            return self.dense(x)

        def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True) -> Any:
            loss = super().compute_loss(x, y, y_pred, sample_weight, training)
            self.custom.update_state(loss * 4)
            self.added.update_state(sum(self.losses))
            return loss

    def make() -> Any:
        model = Counting()
        model.compile("sgd", "mse")
        return model

    history = under(make).fit(ONES[:32], ZEROS[:32], verbose=0).history
    assert history["custom"][0] == pytest.approx(4 * history["loss"][0], rel=1e-5)
    assert history["added"][0] > 0.0


def test_outputs_without_a_loss_do_not_count(under: Make) -> None:
    """test_partial_loss_partial_label"""

    def make() -> Any:
        inputs = keras.Input((4,))
        x = keras.layers.Dense(3, kernel_initializer="ones")(inputs)
        return [keras.Model(inputs, [x, x, x]) for _ in range(2)]

    part, whole = under(make)
    part.compile(loss=["mse", None, None])
    whole.compile(loss=["mse", "mse", "mse"])
    found = part.evaluate(ONES, ZEROS, verbose=0)
    assert whole.evaluate(ONES, [ZEROS] * 3, verbose=0, return_dict=True)["loss"] == pytest.approx(3 * found, rel=1e-5)
