"""Weights that are loaded: in virtual time, and all of them, or none where a server is away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import UnavailableError

X, Y = np.ones((4, 3), np.float32), np.ones((4, 2), np.float32)


def trained(cluster: sd.Cluster) -> Any:
    """A model of which both servers hold a part, with slots."""
    with sd.ParameterServerStrategy(cluster).scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(2)])
        model.compile(keras.optimizers.Adam(0.1), "mse")
    model.fit(X, Y, batch_size=4, verbose=0)
    return model


def values(model: Any) -> list[Any]:
    """The values that are still there."""
    found: list[Any] = []
    for v in [*model.weights, *model.optimizer.variables]:
        try:
            found.append(v.numpy().tolist())
        except UnavailableError:
            found.append(None)
    return found


def load(model: Any, path: Path) -> None:
    model.load_weights(path)


def set_ones(model: Any, path: Path) -> None:
    model.set_weights([np.ones(v.shape) for v in model.weights])


@pytest.mark.parametrize("change", [load, set_ones])
@pytest.mark.parametrize("restart_after", [None, 0.1])
def test_weights_are_changed_together_or_not_at_all(
    change: Callable[[Any, Path], None], restart_after: float | None, tmp_path: Path
) -> None:
    path = tmp_path / "model.weights.h5"
    with sd.Cluster({"worker": 1, "ps": 2}) as cluster:
        other = trained(cluster)
        set_ones(other, path)
        other.save_weights(path)
        model = trained(cluster)
        cluster.faults.crash("ps:1", at=cluster.now + 0.5, restart_after=restart_after)
        sd.sleep(1.0)
        before = values(model)
        assert None in before and any(value is not None for value in before)
        with pytest.raises(UnavailableError, match="ps:1"):
            change(model, path)
        assert values(model) == before


@pytest.mark.parametrize("change", [load, set_ones])
def test_weights_are_changed_where_all_servers_are_there(change: Callable[[Any, Path], None], tmp_path: Path) -> None:
    path = tmp_path / "model.weights.h5"
    with sd.Cluster({"worker": 1, "ps": 2}) as cluster:
        model = trained(cluster)
        set_ones(model, path)
        model.save_weights(path)
        model.fit(X, Y, batch_size=4, verbose=0)
        change(model, path)
        assert all((weight == 1.0).all() for weight in model.get_weights())


def test_weights_are_loaded_in_the_time_of_a_checkpoint_and_set_in_none(tmp_path: Path) -> None:
    path = tmp_path / "model.weights.h5"
    with sd.Cluster({"worker": 1, "ps": 2}) as cluster:
        model = trained(cluster)

        def seconds(action: Callable[[], Any]) -> float:
            began = cluster.now
            action()
            return cluster.now - began

        model.save_weights(path)
        checkpoint = sd.Checkpoint(model=model)
        saved = checkpoint.save(tmp_path / "checkpoint")
        loaded_s, restored_s = seconds(lambda: load(model, path)), seconds(lambda: checkpoint.restore(saved))
        assert loaded_s == pytest.approx(restored_s, rel=1e-3) and loaded_s > 1e-4
        assert seconds(lambda: set_ones(model, path)) == seconds(lambda: model.weights[0].assign(np.zeros((3, 4)))) == 0.0


@pytest.mark.parametrize("fault", ["pause", "partition"])
def test_weights_are_not_loaded_to_a_server_that_cannot_be_reached(fault: str, tmp_path: Path) -> None:
    path = tmp_path / "model.weights.h5"
    with sd.Cluster({"worker": 1, "ps": 2}) as cluster:
        model = trained(cluster)
        model.save_weights(path)
        set_ones(model, path)
        begin_s = cluster.now + 0.1
        if fault == "pause":
            cluster.faults.pause("ps:1", at=begin_s, until=begin_s + 100.0)
        else:
            cluster.faults.partition("chief:0", "ps:1", at=begin_s, until=begin_s + 100.0)
        sd.sleep(0.2)
        before = values(model)
        with pytest.raises(UnavailableError, match=r"values of model.weights.h5 did not come from chief:0 to ps:1"):
            model.load_weights(path)
        assert values(model) == before
        sd.sleep(100.0)
        model.load_weights(path)
        assert values(model) != before


@pytest.mark.parametrize("name", ["model.keras", "model.weights.h5"])
@pytest.mark.sample(2)
def test_mains_that_save_to_one_path_at_the_same_time_do_not_disturb_each_other(name: str, tmp_path: Path) -> None:
    def main() -> bool:
        with sd.MultiWorkerMirroredStrategy().scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
            model.compile("sgd", "mse")
        model.fit(sd.Dataset.from_tensor_slices((X, Y)).batch(4), verbose=0)
        trained = model.get_weights()
        (model.save if name == "model.keras" else model.save_weights)(tmp_path / name)
        model.set_weights([0 * weight for weight in trained])
        model.load_weights(tmp_path / name)
        return all(np.array_equal(one, other) for one, other in zip(trained, model.get_weights(), strict=True))

    with sd.Cluster({"worker": 2}) as cluster:
        run = cluster.launch(main)
        run.join()
        assert run.results == {"worker:0": True, "worker:1": True}
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("call", [keras.Model.save, keras.Model.save_weights])
def test_path_that_keras_refuses_is_named_as_it_was_given(call: Any, tmp_path: Path) -> None:
    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match=rf"filepath={tmp_path}/folder(\.|$)"):
        call(model, tmp_path / "folder")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_not_there_is_kerass_error_and_takes_no_time(tmp_path: Path) -> None:
    with sd.Cluster({"worker": 1, "ps": 2}) as cluster:
        model, began = trained(cluster), cluster.now
        with pytest.raises(FileNotFoundError):
            model.load_weights(tmp_path / "none.weights.h5")
        assert cluster.now == began
