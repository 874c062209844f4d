"""Cases B196, B197, B204 to B206 and B214 to B217: callbacks of fit, in their order and with true values, under every kind of strategy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).random((12, 3), np.float32)
Y = X.sum(1, keepdims=True) * 3 + 1
STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "mirrored": lambda: sd.MirroredStrategy(2),
    "workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2})),
    "rounds": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), mode="sync"),
}


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> Any:
    return STRATEGIES[request.param]()


@pytest.fixture
def servers() -> Any:
    return STRATEGIES["servers"]()


def model_of(strategy: Any, rate: float = 0.1, **options: Any) -> Any:
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False)])
        model.compile(keras.optimizers.SGD(rate), "mse", **options)
    return model


def fit(model: Any, *callbacks: Any, x: np.ndarray = X, **options: Any) -> dict[str, list[float]]:
    return model.fit(x, Y, **({"batch_size": 4, "shuffle": False, "verbose": 0, "callbacks": list(callbacks)} | options)).history


class Order(keras.callbacks.Callback):
    """Writes down which hooks are called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def on_train_begin(self, logs: Any = None) -> None:
        self.calls.append("train begin")

    def on_train_end(self, logs: Any = None) -> None:
        self.calls.append("train end")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.calls.append(f"epoch {epoch} begin")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.calls.append(f"epoch {epoch} end")

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.calls.append(f"begin {batch}")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.calls.append(f"end {batch}")


def test_b196_a_hook_of_batches_gets_numbers_under_parameter_servers(servers: Any) -> None:
    seen: list[tuple[int, Any]] = []
    note = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append((batch, logs["loss"])))
    history = fit(model_of(servers), note, epochs=2)
    assert [batch for batch, _ in seen] == [0, 1, 2] * 2
    assert all(type(loss) is float for _, loss in seen)
    assert [seen[2][1], seen[5][1]] == pytest.approx(history["loss"])


def test_b197_epochs_have_float_logs_and_every_step_counts_once(servers: Any) -> None:
    seen: list[Any] = []
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(logs["loss"]))
    creator = sd.DatasetCreator(lambda context: sd.Dataset.from_tensor_slices((X, Y)).repeat().batch(4))
    model = model_of(servers)
    history = model.fit(creator, epochs=3, steps_per_epoch=5, verbose=0, callbacks=[note]).history
    assert history["loss"] == seen and len(seen) == 3 and all(type(loss) is float for loss in seen)
    assert int(model.optimizer.iterations) == 15


@pytest.mark.parametrize(
    ("size", "batches"), [(1, ["begin 0", "end 0", "begin 1", "end 1", "begin 2", "end 2"]), (2, ["begin 0", "end 1", "begin 2", "end 2"])]
)
def test_b204_hooks_come_in_the_order_of_keras(size: int, batches: list[str], strategy: Any) -> None:
    if isinstance(strategy, sd.ParameterServerStrategy):
        # Two workers begin two batches before one has ended.
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    order = Order()
    fit(model_of(strategy, steps_per_execution=size), order)
    assert order.calls == ["train begin", "epoch 0 begin", *batches, "epoch 0 end", "train end"]


def test_b205_epochs_begin_where_they_are_to_begin(strategy: Any) -> None:
    model = model_of(strategy)
    order = Order()
    fit(model, order, initial_epoch=2, epochs=3)
    assert [call for call in order.calls if "epoch" in call] == ["epoch 2 begin", "epoch 2 end"]
    for last in (3, 2):
        order = Order()
        assert fit(model, order, initial_epoch=3, epochs=last) == {}
        assert order.calls == ["train begin", "train end"]
    assert len(fit(model, epochs=4, validation_data=(X, Y), validation_freq=2)["val_loss"]) == 2


def test_b206_data_that_run_out_end_the_training_with_a_warning_and_count_no_step_too_many(strategy: Any) -> None:
    model = model_of(strategy)
    dataset = sd.Dataset.from_tensor_slices((X, Y)).batch(4)
    with pytest.warns(UserWarning, match="ran out after 1 of 2 steps"):
        history = model.fit(dataset, epochs=3, steps_per_epoch=2, verbose=0).history
    assert (len(history["loss"]), int(model.optimizer.iterations)) == (2, 3)


def test_b214_a_checkpoint_needs_its_value_its_placeholders_and_a_frequency(strategy: Any, tmp_path: Path) -> None:
    checkpoint = keras.callbacks.ModelCheckpoint
    with pytest.warns(UserWarning, match="no value of 'val_loss'"):
        fit(model_of(strategy), checkpoint(str(tmp_path / "best.keras"), save_best_only=True))
    with pytest.raises(KeyError, match="unknown"):
        fit(model_of(strategy), checkpoint(str(tmp_path / "{unknown}.keras")))
    with pytest.raises(ValueError, match="save_freq"):
        checkpoint(str(tmp_path / "x.keras"), save_freq="batch")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("monitor", "up"), [("accuracy", True), ("val_accuracy", True), ("loss", False), ("mae", False)])
def test_b214_auto_knows_whether_more_is_better(monitor: str, up: bool, tmp_path: Path) -> None:
    kept = keras.callbacks.ModelCheckpoint(str(tmp_path / "best.keras"), monitor, save_best_only=True)
    fit(model_of(sd.MirroredStrategy(2), metrics=["accuracy", "mae"]), kept, validation_data=(X, Y))
    assert bool(kept.monitor_op(2.0, 1.0)) is up


@pytest.mark.parametrize(("options", "epochs"), [({"patience": 0}, 2), ({"patience": 2}, 3), ({"start_from_epoch": 3}, 5)])
@pytest.mark.sample(2)
def test_b215_early_stopping_waits_as_long_as_it_is_told(options: dict[str, int], epochs: int, strategy: Any) -> None:
    history = fit(model_of(strategy), keras.callbacks.EarlyStopping("loss", **options), x=X * 0, epochs=9)
    assert len(set(history["loss"])) == 1  # no gradient
    assert len(history["loss"]) == epochs


def test_b215_early_stopping_brings_back_the_best_weights(strategy: Any) -> None:
    model = model_of(strategy, rate=2.0)  # which diverges
    begun: list[np.ndarray] = []
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: begun.append(model.get_weights()[0]))
    stop = keras.callbacks.EarlyStopping("val_loss", patience=1, restore_best_weights=True)
    history = fit(model, stop, note, epochs=5, validation_data=(X, Y))
    assert len(history["val_loss"]) == 2
    assert np.array_equal(model.get_weights()[0], begun[0])


def test_b216_learning_rates_follow_their_schedule(strategy: Any) -> None:
    given: list[tuple[int, float]] = []

    def halved(epoch: int, rate: float) -> float:
        given.append((epoch, rate))
        return rate / 2 if epoch >= 2 else rate

    rates = fit(model_of(strategy), keras.callbacks.LearningRateScheduler(halved), epochs=4)["learning_rate"]
    assert rates == pytest.approx([0.1, 0.1, 0.05, 0.025])
    assert given == [(epoch, pytest.approx(rate)) for epoch, rate in enumerate([0.1, 0.1, 0.1, 0.05])]


def test_b216_learning_rates_are_reduced_on_a_plateau(strategy: Any) -> None:
    seen: list[float] = []
    model = model_of(strategy)
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(float(model.optimizer.learning_rate.numpy())))
    reduce = keras.callbacks.ReduceLROnPlateau("loss", factor=0.1, patience=2)
    fit(model, reduce, note, x=X * 0, epochs=6)
    assert seen == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_b217_a_loss_that_is_no_number_ends_the_training_after_its_batch(strategy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model = model_of(strategy)
    history = fit(model, keras.callbacks.TerminateOnNaN(), x=X * np.nan, epochs=3)
    assert len(history["loss"]) == 1
    # Closures that were on their way count.
    assert int(model.optimizer.iterations) == 1 or isinstance(strategy, sd.ParameterServerStrategy)
    assert "Batch 0: Invalid loss" in capsys.readouterr().out


def test_b217_a_table_of_epochs_has_a_title_and_a_line_for_each(strategy: Any, tmp_path: Path) -> None:
    history = fit(model_of(strategy), keras.callbacks.CSVLogger(str(tmp_path / "log.csv")), epochs=2)
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert lines == ["epoch,loss,val_loss", *(f"{epoch},{loss},NA" for epoch, loss in enumerate(history["loss"]))]
