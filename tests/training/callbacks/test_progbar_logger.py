"""The progress bar of fit, evaluate and predict: which lines, when, and no number computed for their sake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.training.callbacks import ProgbarLogger

X = np.random.default_rng(0).random((12, 3), np.float32)
Y = X.sum(1, keepdims=True) * 3 + 1
STRATEGIES: dict[str, Callable[[], Any]] = {
    "mirrored": lambda: sd.MirroredStrategy(2),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1})),
}


class Lines:
    """A display that writes down what it is given."""

    def __init__(self, interval_s: float | None = 0.0) -> None:
        self.interval_s = interval_s
        self.shown: list[str] = []
        self.ended: list[str] = []

    def show(self, line: str) -> None:
        self.shown.append(line)

    def end(self, line: str) -> None:
        self.ended.append(line)


class Clock:
    """A real clock on which each look takes a quarter of a second."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.25
        return self.now_s


def model_of(strategy: Any, **options: Any) -> Any:
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.1), "mse", **options)
    return model


def fit(model: Any, *callbacks: Any, **options: Any) -> Any:
    return model.fit(X, Y, **({"batch_size": 4, "shuffle": False, "verbose": 1, "callbacks": list(callbacks)} | options)).history


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_steps_are_counted_as_they_end_and_an_epoch_ends_with_its_losses(strategy: str) -> None:
    lines, model = Lines(), model_of(STRATEGIES[strategy]())
    history = fit(model, ProgbarLogger(Clock(), lines), epochs=2, validation_data=(X, Y))
    assert [line.split(" steps")[0].split()[-1] for line in lines.shown] == ["1/3", "2/3", "3/3"] * 2
    assert [line.split()[1] for line in lines.shown] == ["1/2"] * 3 + ["2/2"] * 3
    assert all("loss:" not in line for line in lines.shown)
    assert [line.split(" - loss: ")[1] for line in lines.ended] == [
        f"{loss:.4f} - val_loss: {validated:.4f}" for loss, validated in zip(history["loss"], history["val_loss"], strict=True)
    ]


def test_virtual_seconds_are_those_of_the_epoch() -> None:
    lines, model = Lines(), model_of(STRATEGIES["servers"]())
    engine, at = model.simdist_strategy.engine, list[float]()
    begin = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: at.append(engine.now))
    end = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: at.append(engine.now))
    fit(model, begin, end, ProgbarLogger(Clock(), lines), epochs=2)
    for line, first, last in zip(lines.ended, at[::2], at[1::2], strict=True):
        assert f" - {last - first:.3g} s virtual - " in line


def test_lines_are_shown_no_more_often_than_the_display_wants() -> None:
    def shown(interval_s: float | None) -> list[str]:
        lines = Lines(interval_s)
        fit(model_of(sd.MirroredStrategy(2)), ProgbarLogger(Clock(), lines), batch_size=1)
        return [line.split("/12")[0].split()[-1] for line in lines.shown]

    assert shown(0.5) == ["2", "4", "6", "8", "10", "12"]
    assert shown(100.0) == ["12"]
    assert shown(None) == []


def test_steps_that_nobody_knew_are_counted() -> None:
    lines = Lines()
    dataset = sd.Dataset.from_tensor_slices((X, Y)).filter(lambda x, y: True).batch(4)
    model_of(sd.MirroredStrategy(2)).fit(dataset, epochs=2, callbacks=[ProgbarLogger(Clock(), lines)])
    assert lines.shown[0].startswith("Epoch 1/2 1 steps") and lines.shown[3].endswith(" virtual") and " 1/3 steps" in lines.shown[3]


def test_evaluation_and_prediction_have_lines_of_their_own() -> None:
    lines, model = Lines(), model_of(sd.MirroredStrategy(2))
    fit(model, ProgbarLogger(Clock(), lines), verbose=0)
    for call in (lambda given: model.evaluate(X, Y, 4, callbacks=given), lambda given: model.predict(X, 4, callbacks=given)):
        call([ProgbarLogger(Clock(), lines)])
    assert lines.ended[-2].startswith("Evaluation - 3/3 steps") and " - loss: " in lines.ended[-2]
    assert lines.ended[-1].startswith("Prediction - 3/3 steps") and lines.ended[-1].endswith("virtual")


def test_progress_computes_nothing() -> None:
    def computed(verbose: int, *callbacks: Any) -> int:
        strategy = sd.MirroredStrategy(2)
        model = model_of(strategy)
        with pytest.MonkeyPatch.context() as patch:
            read: list[Any] = []
            patch.setattr(strategy.store, "compute", lambda variables: read.append(variables))
            fit(model, *callbacks, verbose=verbose)
        return len(read)

    assert computed(1, ProgbarLogger(Clock(), Lines())) == computed(0) == 1


@pytest.mark.parametrize(("verbose", "lines"), [(0, 0), (1, 2), (2, 2), ("auto", 2)])
def test_verbose_says_how_much_is_printed_where_there_is_no_terminal(verbose: Any, lines: int, capsys: pytest.CaptureFixture[str]) -> None:
    model = model_of(sd.MirroredStrategy(2))
    fit(model, epochs=2, verbose=verbose)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == lines and all(line.startswith("Epoch ") for line in printed)
    model.evaluate(X, Y, verbose=verbose)
    model.predict(X, verbose=verbose)
    assert len(capsys.readouterr().out.splitlines()) == lines


def test_a_bar_of_the_users_is_the_only_one(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    fit(model_of(sd.MirroredStrategy(2)), ProgbarLogger(Clock(), lines))
    assert len(lines.ended) == 1 and capsys.readouterr().out == ""


def test_launched_mains_have_a_line_an_epoch_each(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> None:
        fit(model_of(sd.MultiWorkerMirroredStrategy()), epochs=2)

    run = sd.Cluster({"worker": 2}).launch(main)
    run.join()
    printed = capsys.readouterr().out.splitlines()
    assert sorted(line.split(" - ")[0] for line in printed) == [
        f"[worker:{worker}] Epoch {epoch}/2" for worker in (0, 1) for epoch in (1, 2)
    ]


def test_without_numbers_there_are_steps_and_times() -> None:
    lines = Lines()
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}, numerics="off"))
    fit(model_of(strategy), ProgbarLogger(Clock(), lines))
    assert lines.ended[0].startswith("Epoch 1/1 - 3/3 steps - ") and lines.ended[0].endswith(" s virtual")


@pytest.mark.parametrize("strategy", [lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}, engine="in_process")), None])
def test_without_a_clock_or_a_strategy_there_are_no_virtual_seconds(strategy: Callable[[], Any] | None) -> None:
    lines = Lines()
    if strategy is None:
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    else:
        model = model_of(strategy())
    fit(model, ProgbarLogger(Clock(), lines))
    assert lines.ended[0].startswith("Epoch 1/1 - 3/3 steps - ") and "virtual" not in lines.ended[0] and " - loss: " in lines.ended[0]


@pytest.mark.parametrize(
    ("saved_at", "expected"), [(4, ["2/3 steps - 4.0 steps/s", "3/3 steps - 2.7 steps/s"]), (6, ["3/3 steps - 0.25 s real"])]
)
def test_an_epoch_that_goes_on_counts_its_own_steps_for_the_rate(saved_at: int, expected: list[str], tmp_path: Path) -> None:
    """One step of the second epoch was done before, or all three were, and then the epoch only ends."""

    def stop(epoch: int, logs: Any) -> None:
        if epoch == 1:
            raise KeyboardInterrupt

    def train(callback: Any) -> None:
        fit(model_of(sd.OneDeviceStrategy()), keras.callbacks.BackupAndRestore(tmp_path, saved_at), callback, epochs=2)

    with pytest.raises(KeyboardInterrupt):
        train(keras.callbacks.LambdaCallback(on_epoch_end=stop))
    lines = Lines()
    train(ProgbarLogger(Clock(), lines))
    for line, text in zip([*lines.shown[:1], *lines.ended], expected, strict=True):
        assert text in line
