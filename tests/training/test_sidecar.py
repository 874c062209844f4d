"""SidecarEvaluator: a task of its own evaluates what the chief saves, in time, and survives files that are not whole."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.training.saved_files import is_damaged

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.linspace(0, 1, 24, dtype=np.float32)[:, None]
Y = 3 * X + 1
DATA = sd.Dataset.from_tensor_slices((X, Y)).batch(8)


def build() -> Any:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    return model


def saved(model: Any, path: Path, weight: float) -> None:
    model.set_weights([np.float32([[weight]]), np.float32([1.0])])
    model.save_weights(path)


def test_each_new_file_is_evaluated_with_its_own_weights_while_others_train(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1, "evaluator": 1}, seed=0)

    def evaluate() -> list[tuple[str, float, float]]:
        with sd.OneDeviceStrategy().scope():
            model = build()
        evaluator = sd.SidecarEvaluator(model, DATA, tmp_path, max_evaluations=3, poll_s=1e-4)
        return [(found.path.name, found.logs["loss"], cluster.now) for found in evaluator.start()]

    run = cluster.launch(evaluate, job="evaluator")
    with sd.ParameterServerStrategy(cluster).scope():
        model = build()
    kept = keras.callbacks.ModelCheckpoint(str(tmp_path / "{epoch}.weights.h5"), save_weights_only=True)
    history = model.fit(X, Y, batch_size=4, epochs=3, verbose=0, callbacks=[kept], validation_data=(X, Y)).history
    run.join()
    found = run.results["evaluator:0"]
    assert [name for name, _, _ in found] == ["1.weights.h5", "2.weights.h5", "3.weights.h5"]
    assert [loss for _, loss, _ in found] == pytest.approx(history["val_loss"], rel=1e-5)
    computed = [span for span in cluster.trace.spans.where(category="compute") if span.lane.startswith("evaluator")]
    assert computed and all(span.end_s > span.start_s for span in computed)


def test_the_newest_is_the_one_with_the_largest_number_and_older_ones_are_passed_over(tmp_path: Path) -> None:
    with sd.OneDeviceStrategy().scope():
        model = build()
    for number in (9, 10, 2):
        saved(model, tmp_path / f"ckpt-{number}.weights.h5", number)
    (tmp_path / "notes.txt").write_text("no weights")
    (found,) = sd.SidecarEvaluator(model, DATA, tmp_path, max_evaluations=1).start()
    assert found.path.name == "ckpt-10.weights.h5"
    assert found.logs["mae"] == pytest.approx(float(np.mean(np.abs(10 * X + 1 - Y))), rel=1e-5)


@pytest.mark.parametrize("number", [3, 500])
def test_a_number_of_steps_that_ends_the_evaluations_early_is_told(number: int, tmp_path: Path) -> None:
    with sd.OneDeviceStrategy().scope():
        model = build()
    saved(model, tmp_path / f"ckpt-{number}.weights.h5", 1.0)
    evaluator = sd.SidecarEvaluator(model, DATA, tmp_path, max_evaluations=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(evaluator.start()) == 1
    told = [str(one.message) for one in caught if "SidecarEvaluator ends after 1 of max_evaluations=3" in str(one.message)]
    assert len(told) == (number > 3)


def _half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _inverted(content: bytes) -> bytes:
    quarter = len(content) // 4
    return content[:quarter] + bytes(byte ^ 255 for byte in content[quarter : 3 * quarter]) + content[3 * quarter :]


def _without_a_node(content: bytes) -> bytes:
    """With a hole in the group of a layer of which Keras says ValueError, as it does of another model."""
    return content[: content.rindex(b"TREE")] + bytes(4) + content[content.rindex(b"TREE") + 4 :]


@pytest.mark.parametrize(
    ("name", "damaged"),
    [(name, damaged) for damaged in (_half, _inverted) for name in ("1.weights.h5", "1.keras")] + [("1.weights.h5", _without_a_node)],
)
def test_a_file_that_is_not_whole_is_passed_over(name: str, damaged: Any, tmp_path: Path) -> None:
    with sd.Cluster({"worker": 1}):
        model = build()
        model.save(tmp_path / name) if name.endswith(".keras") else model.save_weights(tmp_path / name)
        (tmp_path / name).write_bytes(damaged((tmp_path / name).read_bytes()))
        evaluator = sd.SidecarEvaluator(build(), DATA, tmp_path, timeout_s=5)
        with pytest.warns(UserWarning, match="passes over"), pytest.raises(sd.errors.DeadlineExceededError, match="after 0 evaluations"):
            evaluator.start()


def test_where_the_newest_is_damaged_the_one_before_it_is_evaluated_once(tmp_path: Path) -> None:
    with sd.Cluster({"worker": 1}):
        model = build()
        evaluator = sd.SidecarEvaluator(build(), DATA, tmp_path, timeout_s=5)

        def add(number: int, is_whole: bool = True) -> None:
            saved(model, path := tmp_path / f"{number}.weights.h5", number)
            path.write_bytes(path.read_bytes() if is_whole else _half(path.read_bytes()))

        for number in (1, 2, 3):
            add(number, is_whole=number < 3)
        with pytest.warns(UserWarning, match=r"passes over .*3\.weights\.h5"):
            assert [found.path.name for found in evaluator.start()] == ["2.weights.h5"]
        add(5, is_whole=False)
        with pytest.warns(UserWarning, match=r"passes over .*5\.weights\.h5"):
            assert len(evaluator.start()) == 1  # what is older than the last one that was evaluated comes too late
        add(4)
        add(5)
        evaluator.start()
    assert [found.path.name for found in evaluator.evaluations] == ["2.weights.h5", "5.weights.h5"]
    errors = [float(np.mean(np.abs((number - 3) * X))) for number in (2, 5)]
    np.testing.assert_allclose([found.logs["mae"] for found in evaluator.evaluations], errors, rtol=1e-5)


@pytest.mark.parametrize("name", ["1.weights.h5", "1.keras"])
def test_a_file_of_another_model_is_an_error(name: str, tmp_path: Path) -> None:
    with sd.Cluster({"worker": 1}):
        other = keras.Sequential([keras.Input((1,)), keras.layers.Dense(2), keras.layers.Dense(1)])
        other.save_weights(tmp_path / name) if name.endswith("h5") else other.save(tmp_path / name)
        evaluator = sd.SidecarEvaluator(build(), DATA, tmp_path, timeout_s=5)
        with pytest.raises(sd.errors.InvalidArgumentError, match=rf"{re.escape(name)}' has other weights than .*Keras says: "):
            evaluator.start()


@pytest.mark.parametrize("place", [None, 0, -2000], ids=["whole", "header of a part", "numbers"])
def test_damage_of_a_file_is_found_by_its_checksums(place: int | None, tmp_path: Path) -> None:
    build().save(path := tmp_path / "1.keras")
    content = bytearray(path.read_bytes())
    if place is not None:
        content[place] ^= 1
    path.write_bytes(content)
    assert is_damaged(path) is (place is not None)


def test_an_error_of_a_cluster_while_a_file_is_loaded_is_none_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise sd.errors.InvalidArgumentError("said by the cluster")

    with sd.Cluster({"worker": 1}):
        model = build()
        saved(model, tmp_path / "1.weights.h5", 1.0)
        monkeypatch.setattr(model, "load_weights", refuse)
        with pytest.raises(sd.errors.InvalidArgumentError, match=r"^said by the cluster"):
            sd.SidecarEvaluator(model, DATA, tmp_path, timeout_s=5).start()


@pytest.mark.parametrize(("name", "is_last"), [("{}.weights.h5", True), ("epoch-{:02d}.keras", True), ("{}-0.25.weights.h5", False)])
def test_the_file_with_the_number_of_the_last_epoch_ends_the_evaluations(name: str, is_last: bool, tmp_path: Path) -> None:
    with sd.Cluster({"worker": 1}) as cluster:
        model, path = build(), tmp_path / name.format(4)
        model.save(path) if name.endswith(".keras") else model.save_weights(path)
        evaluator = sd.SidecarEvaluator(build(), DATA, tmp_path, max_evaluations=4, timeout_s=5)
        if is_last:
            assert len(evaluator.start()) == 1
            assert cluster.now < 1.0
        else:
            with pytest.raises(sd.errors.DeadlineExceededError, match="after 1 evaluations"):
                evaluator.start()


def test_a_file_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 1})

    def main() -> list[str]:
        with sd.OneDeviceStrategy().scope():
            model = build()
        (tmp_path / "1.weights.h5").write_bytes(b"torn")
        evaluator = sd.SidecarEvaluator(model, DATA, tmp_path, max_evaluations=1, timeout_s=5)
        with pytest.warns(UserWarning, match=r"passes over .*1\.weights\.h5"), pytest.raises(sd.errors.DeadlineExceededError):
            evaluator.start()
        saved(model, tmp_path / "2.weights.h5", 2.0)
        return [found.path.name for found in evaluator.start()]

    run = cluster.launch(main)
    run.join()
    assert run.results["worker:0"] == ["2.weights.h5"] and cluster.now >= 5


@pytest.mark.parametrize("name", ["best.weights.h5", "best.keras"])
def test_a_file_that_is_replaced_under_its_name_is_evaluated_again_where_its_weights_are_others(tmp_path: Path, name: str) -> None:
    cluster = sd.Cluster({"worker": 1, "evaluator": 1})

    def evaluate() -> list[float]:
        evaluator = sd.SidecarEvaluator(build(), DATA, tmp_path, timeout_s=20.0)
        return [found.logs["mae"] for found in evaluator.start()]

    def train(*weights: float) -> None:
        model = build()
        for weight in weights:
            model.set_weights([np.float32([[weight]]), np.float32([1.0])])
            model.save(tmp_path / name) if name.endswith(".keras") else model.save_weights(tmp_path / name)
            sd.sleep(5.0)

    beside = cluster.launch(evaluate, job="evaluator")
    cluster.launch(train, args=(5.0, 4.0, 4.0), job="worker").join()
    cluster.launch(train, args=(4.0, 3.0), job="worker").join()  # as a program that has started again
    beside.join()
    expected = [float(np.mean(np.abs((weight - 3) * X))) for weight in (5, 4, 3)]
    np.testing.assert_allclose(beside.results["evaluator:0"], expected, rtol=1e-5, atol=1e-6)


def test_a_wait_that_is_too_long_says_what_is_missing(tmp_path: Path) -> None:
    with sd.Cluster({"worker": 1}) as cluster:
        model = build()
        with pytest.raises(sd.errors.DeadlineExceededError, match=r"no new file .* after 0 evaluations.*ModelCheckpoint"):
            sd.SidecarEvaluator(model, DATA, tmp_path / "later", timeout_s=3, poll_s=0.5).start()
        assert cluster.now == 3


def test_without_a_number_of_evaluations_it_ends_when_no_more_files_come(tmp_path: Path) -> None:
    with sd.Cluster({"worker": 1}), sd.OneDeviceStrategy().scope():
        model = build()
    saved(model, tmp_path / "1.weights.h5", 1.0)
    with sd.Cluster({"worker": 1}) as cluster:
        assert len(sd.SidecarEvaluator(model, DATA, tmp_path, poll_s=10).start()) == 1
        assert cluster.now == 3600


def test_a_model_of_a_whole_file_may_be_built_by_its_first_batch(tmp_path: Path) -> None:
    class Late(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.out = keras.layers.Dense(1, kernel_initializer="zeros")

        def call(self, x: Any) -> Any:
            return self.out(x)

    models: list[Any] = []
    for _ in range(2):
        with sd.OneDeviceStrategy().scope():
            models.append(Late())
            models[-1].compile("sgd", "mse")
    models[0].fit(X, Y, verbose=0)
    models[0].save(tmp_path / "1.keras")
    heard: list[float] = []
    callback = keras.callbacks.LambdaCallback()
    callback.on_test_end = lambda logs=None: heard.append((logs or {})["loss"])
    (found,) = sd.SidecarEvaluator(models[1], DATA, tmp_path, max_evaluations=1, callbacks=[callback]).start()
    assert found.logs["loss"] == pytest.approx(models[0].evaluate(DATA, verbose=0), rel=1e-6)
    assert heard == [found.logs["loss"]]  # and nothing of the batch that has built it


def test_arguments_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for options, words in (
        ({"checkpoint_dir": file}, "is a file"),
        ({"checkpoint_dir": tmp_path, "steps": 0}, "steps is 0; expected at least 1"),
        ({"checkpoint_dir": tmp_path, "timeout_s": -1.0}, r"timeout_s=-1\.0"),
        ({"checkpoint_dir": tmp_path, "max_evaluations": 0}, "max_evaluations is 0; expected at least 1"),
        ({"checkpoint_dir": tmp_path, "poll_s": 0.0}, "poll_s=0.0"),
    ):
        with pytest.raises(sd.errors.InvalidArgumentError, match=words):
            sd.SidecarEvaluator(build(), DATA, **options)
    for name, value in (("steps", 1.5), ("max_evaluations", 1.5), ("timeout_s", "long"), ("poll_s", True)):
        with pytest.raises(TypeError, match=f"{name} is {value!r}; expected"):
            sd.SidecarEvaluator(build(), DATA, tmp_path, **{name: value})
