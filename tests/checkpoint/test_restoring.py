"""A restore is all or nothing; what does not exist yet gets its value later; the status says what has become of it."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError, NotFoundError, UnavailableError
from tests.checkpoint.kept import Kept

variable: Any = sd.Variable


@pytest.fixture
def saved(tmp_path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Objects of every kind, after they were saved and changed; and the checkpoint."""
    with sd.MirroredStrategy(2).scope():
        objects: dict[str, Any] = {"a": variable([1.0, 2.0]), "layer": keras.layers.Dense(2), "table": variable(np.ones((3, 2)))}
        objects["layer"].build((1, 3))
    objects |= {"first": Kept("first"), "rows": iter(sd.Dataset.range(9)), "own": Scaled(2.0), "last": Kept("last"), "z": variable(3.0)}
    next(objects["rows"])
    path = sd.Checkpoint(**objects).save(tmp_path / "ckpt")
    for name in ("a", "table", "z"):
        objects[name].assign(objects[name].numpy() * 0 - 1)
    for variable_of in objects["layer"].variables:
        variable_of.assign(np.asarray(variable_of) * 0 - 1)
    objects["first"].state = objects["last"].state = "changed"
    objects["own"].scale = -1.0
    for _ in range(4):
        next(objects["rows"])
    yield objects, path


class Scaled(keras.layers.Layer):
    """A layer that saves a number that is no variable."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.built = True

    def save_own_variables(self, store: Any) -> None:
        store["a/scale.x"] = np.asarray(self.scale)

    def load_own_variables(self, store: Any) -> None:
        if float(store["a/scale.x"]) == 99.0:
            raise ValueError("no such scale")
        self.scale = float(store["a/scale.x"])


def is_as_changed(objects: dict[str, Any]) -> bool:
    """Whether a restore has left all of them alone."""
    variables = [objects["a"], objects["table"], objects["z"], *objects["layer"].variables]
    return (
        all((np.asarray(v) == -1).all() for v in variables)
        and objects["first"].state == objects["last"].state == "changed"
        and objects["own"].scale == -1.0
        and objects["rows"].state_dict()["consumed"] == 5
    )


def is_as_saved(objects: dict[str, Any]) -> bool:
    """Whether all of them were restored."""
    variables = [objects["a"], objects["table"], objects["z"], *objects["layer"].variables]
    return (
        all((np.asarray(v) != -1).all() for v in variables)
        and objects["first"].state == "first"
        and objects["last"].state == "last"
        and objects["own"].scale == 2.0
        and objects["rows"].state_dict()["consumed"] == 1
    )


def test_everything_is_restored(saved: tuple[dict[str, Any], str]) -> None:
    objects, path = saved
    assert is_as_changed(objects)
    sd.Checkpoint(**objects).restore(path).assert_consumed()
    assert is_as_saved(objects)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("z", lambda: variable([3.0]), r"z has shape \(1,\), and the checkpoint has one of shape \(\)"),
        ("z", lambda: variable(3), "z has dtype int32, and the checkpoint has one of float32"),
        ("a", lambda: keras.Variable(np.zeros(3)), r"a has shape \(3,\)"),
        ("rows", lambda: iter(sd.Dataset.range(9).shuffle(9)), "0 shuffles.*1 shuffles"),
        ("rows", lambda: iter(sd.Dataset.range(0)), "has only 0"),
    ],
)
def test_what_does_not_fit_changes_nothing(saved: tuple[dict[str, Any], str], name: str, value: Any, words: str) -> None:
    objects, path = saved
    with pytest.raises(InvalidArgumentError, match=words):
        sd.Checkpoint(**{**objects, name: value()}).restore(path)
    assert is_as_changed(objects)


@pytest.mark.parametrize("refuses", ["first", "last", "own"])
def test_an_object_that_refuses_its_state_takes_all_others_back(saved: tuple[dict[str, Any], str], refuses: str, tmp_path: Path) -> None:
    objects, _ = saved
    if refuses == "own":
        objects["own"].scale = 99.0
        path = sd.Checkpoint(**objects).save(tmp_path / "odd")
        objects["own"].scale = -1.0
    else:
        path = saved[1]
        objects[refuses].refuses = refuses
    objects = {"begins": Kept("changed"), **objects}
    with pytest.raises(ValueError, match="no such scale" if refuses == "own" else "not this one"):
        sd.Checkpoint(**objects).restore(path).expect_partial()
    assert is_as_changed(objects) and objects["begins"].state == "changed"


def test_a_server_that_is_down_lets_nothing_change(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    with sd.ParameterServerStrategy(cluster).scope():
        pair = [variable(1.0), variable(2.0)]
    kept = Kept("saved")
    path = sd.Checkpoint(kept=kept, pair=pair).save(tmp_path / "ckpt")
    pair[0].assign(-1.0)
    kept.state = "changed"
    cluster.faults.crash("ps:1", at=cluster.now + 1.0)
    cluster.world.clock.sleep(2.0)
    with pytest.raises(UnavailableError, match="ps:1"):
        sd.Checkpoint(kept=kept, pair=pair).restore(path)
    assert float(pair[0]) == -1.0 and kept.state == "changed"


def test_a_server_that_does_not_answer_is_named_with_the_second_and_nothing_changes(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    with sd.ParameterServerStrategy(cluster).scope():
        pair = [variable(1.0), variable(2.0)]
    path = sd.Checkpoint(pair=pair).save(tmp_path / "ckpt")
    pair[0].assign(-1.0)
    cluster.faults.pause("ps:1", at=cluster.now + 0.5, until=cluster.now + 100.0)
    sd.sleep(2.0)
    with pytest.raises(UnavailableError, match=r"from chief:0 to ps:1, begun at 2\.\d+ s, within 30 s"):
        sd.Checkpoint(pair=pair).restore(path)
    assert float(pair[0]) == -1.0


def test_an_error_while_the_disk_reads_changes_nothing(saved: tuple[dict[str, Any], str], monkeypatch: pytest.MonkeyPatch) -> None:
    objects, path = saved
    engine = objects["a"].placement.store.strategy.engine
    read = type(engine.disk(engine.chief)).read

    def failing(self: Any, path: str, size_bytes: int, ended: Any) -> None:
        read(self, path, size_bytes, lambda error: ended(UnavailableError("the disk is gone")))

    monkeypatch.setattr(type(engine.disk(engine.chief)), "read", failing)
    with pytest.raises(UnavailableError, match="the disk is gone"):
        sd.Checkpoint(**objects).restore(path)
    assert is_as_changed(objects)


# -- values that wait -----------------------------------------------------------------------------------------------------


def dense(units: int = 2) -> Any:
    return keras.layers.Dense(units, kernel_initializer="ones")


@pytest.mark.parametrize("make", [lambda: sd.MirroredStrategy(2), lambda: sd.OneDeviceStrategy("cpu:0"), None])
def test_a_layer_gets_its_values_when_it_is_built(make: Any, tmp_path: Path) -> None:
    layer = dense()
    layer.build((1, 3))
    layer.kernel.assign(np.full((3, 2), 5.0))
    path = sd.Checkpoint(layer=layer, step=variable(7)).save(tmp_path / "ckpt")
    with make().scope() if make else warnings.catch_warnings():
        other, step = dense(), variable(0)
        status = sd.Checkpoint(layer=other, step=step).restore(path)
        assert status.waiting == ["layer"] and status.restored == ["step"] and not status.superfluous and not status.missing
        with pytest.raises(AssertionError, match=r"layer: the variables do not exist yet\. Build the model"):
            status.assert_consumed()
        other.build((1, 3))
    assert np.asarray(other.kernel).tolist() == [[5.0, 5.0]] * 3 and int(step) == 7
    assert status.assert_consumed() is status and sorted(status.restored) == ["layer/vars/0", "layer/vars/1", "step"]
    other.kernel.assign(np.zeros((3, 2)))
    assert not np.asarray(other.kernel).any(), "values are given once"


def test_values_that_wait_are_in_a_checkpoint_that_is_saved_meanwhile(tmp_path: Path) -> None:
    first, second = dense(), dense()
    for number, layer in enumerate((first, second)):
        layer.build((1, 3))
        layer.kernel.assign(np.full((3, 2), 5.0 + number))
    path = sd.Checkpoint(first=first, second=second).save(tmp_path / "ckpt")
    built, unbuilt = dense(), dense()
    built.build((1, 3))
    checkpoint = sd.Checkpoint(first=built, second=unbuilt)
    checkpoint.restore(path).expect_partial()
    built.kernel.assign(np.full((3, 2), 9.0))
    again = checkpoint.save(tmp_path / "again")
    unbuilt.build((1, 3))
    unbuilt.kernel.assign(np.full((3, 2), 10.0))
    last = checkpoint.save(tmp_path / "last")
    for saved, expected in ((again, (9.0, 6.0)), (last, (9.0, 10.0))):
        found = dense(), dense()
        for layer in found:
            layer.build((1, 3))
        sd.Checkpoint(first=found[0], second=found[1]).restore(saved).assert_consumed()
        assert tuple(np.asarray(layer.kernel)[0, 0] for layer in found) == expected


def test_values_that_waited_and_do_not_fit_are_refused_when_the_layer_is_built(tmp_path: Path) -> None:
    layer, other = dense(2), dense(5)
    layer.build((1, 3))
    status = sd.Checkpoint(layer=other).restore(sd.Checkpoint(layer=layer).save(tmp_path / "ckpt"))
    with pytest.raises(InvalidArgumentError, match=r"layer/vars/0 has shape \(3, 5\)"):
        other.build((1, 3))
    assert (np.asarray(other.kernel) == 1).all()
    status.expect_partial()


def test_several_restores_that_wait_are_carried_out_in_their_order(tmp_path: Path) -> None:
    layer, other = dense(), dense()
    layer.build((1, 3))
    checkpoint = sd.Checkpoint(layer=layer)
    first = checkpoint.save(tmp_path / "ckpt")
    layer.kernel.assign(np.full((3, 2), 5.0))
    second = checkpoint.save(tmp_path / "ckpt")
    for path in (first, second):
        sd.Checkpoint(layer=other).restore(path).expect_partial()
    other.build((1, 3))
    assert (np.asarray(other.kernel) == 5).all()


def test_what_was_restored_is_not_restored_again_by_what_is_built_later(tmp_path: Path) -> None:
    layers = [dense(), dense()]
    for layer in layers:
        layer.build((1, 2))
    v = variable(1.0)
    path = sd.Checkpoint(v=v, layers=layers).save(tmp_path / "ckpt")
    others = [dense(), dense()]
    sd.Checkpoint(v=v, layers=others).restore(path).expect_partial()
    v.assign(9.0)
    others[0].build((1, 2))
    others[0].kernel.assign(np.zeros((2, 2)))
    others[1].build((1, 2))
    assert float(v) == 9.0 and not np.asarray(others[0].kernel).any() and (np.asarray(others[1].kernel) == 1).all()


# -- the status -----------------------------------------------------------------------------------------------------------


def test_a_restore_in_part_warns_once_unless_it_is_answered(tmp_path: Path) -> None:
    a, b = variable(1.0), variable(2.0)
    path = sd.Checkpoint(a=a, b=b).save(tmp_path / "ckpt")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        sd.Checkpoint(a=a, c=variable(0.0)).restore(path)
        gc.collect()
    assert [str(one.message) for one in found] == [
        f"The checkpoint {path!r} was restored in part: no value for c; values that nothing has taken b. If that is right, say "
        ".expect_partial(); .assert_consumed() raises instead."
    ]
    sd.Checkpoint(a=a).restore(path).expect_partial()
    sd.Checkpoint(a=a).restore(path).assert_existing_objects_matched()
    sd.Checkpoint(a=a, b=b).restore(path)
    gc.collect()


def test_a_restore_of_nothing_says_so(tmp_path: Path) -> None:
    checkpoint = sd.Checkpoint(a=variable(1.0))
    status = checkpoint.restore(None)
    for require in (status.assert_consumed, status.assert_existing_objects_matched):
        with pytest.raises(AssertionError, match="There was no checkpoint"):
            require()
    with pytest.raises(AssertionError):
        status.assert_nontrivial_match()
    assert status.expect_partial() is status
    path = checkpoint.save(tmp_path / "ckpt")
    other = sd.Checkpoint(b=variable(1.0)).restore(path)
    with pytest.raises(AssertionError, match="of another one"):
        other.assert_nontrivial_match()
    assert checkpoint.read(path).assert_nontrivial_match().restored == ["a"]


def test_the_counter_of_saves_is_restored_and_a_restore_that_fails_leaves_it(tmp_path: Path) -> None:
    v = variable(1.0)
    checkpoint = sd.Checkpoint(v=v)
    paths = [checkpoint.save(tmp_path / "ckpt") for _ in range(3)]
    other = sd.Checkpoint(v=variable([1.0]))
    other.save_counter = 9
    with pytest.raises(InvalidArgumentError):
        other.restore(paths[1])
    with pytest.raises(NotFoundError):
        other.restore(tmp_path / "nothing")
    assert other.save_counter == 9
    another = sd.Checkpoint(v=v)
    another.restore(paths[1])
    assert another.save_counter == 2 and another.save(tmp_path / "ckpt") == str(tmp_path / "ckpt-3")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_mean_of_half_precision_is_that_of_all_replicas_though_their_sum_does_not_fit(dtype: str, tmp_path: Path) -> None:
    numbers = jnp.asarray([40_000.0, 60_000.0], dtype)

    def made(replicas: int) -> tuple[sd.MirroredStrategy, sd.Variable]:
        strategy = sd.MirroredStrategy(replicas)
        with strategy.scope():
            return strategy, sd.Variable(jnp.zeros((), dtype), trainable=False, synchronization="on_read", aggregation="mean")

    strategy, saved = made(2)
    strategy.run(saved.assign, args=(strategy.distribute_values_from_function(lambda context: numbers[context.replica_id_in_sync_group]),))
    path = sd.Checkpoint(v=saved).save(str(tmp_path / "mean"))
    _, restored = made(3)
    sd.Checkpoint(v=restored).restore(path)
    assert restored.numpy() == jnp.asarray(np.asarray(numbers, np.float64).mean(), dtype)


@pytest.mark.parametrize("distributed", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_later_passes_follow_the_iterator_that_is_furthest_whichever_is_restored_last(
    turned: bool, distributed: bool, tmp_path: Path
) -> None:
    def made() -> tuple[Any, dict[str, Any]]:
        data: Any = sd.Dataset.range(20).shuffle(20, seed=3).batch(2)
        data = sd.MirroredStrategy(1).distribute_dataset(data) if distributed else data
        iterators = {"first": iter(data), "second": iter(data)}
        return data, dict(reversed(iterators.items())) if turned else iterators

    def rows(iterator: Any) -> list[Any]:
        return [np.asarray(element).tolist() for element in iterator]

    data, saved = made()
    path = sd.Checkpoint(**saved).save(tmp_path / "ckpt")
    expected = rows(data)  # of the third pass
    again, restored = made()
    sd.Checkpoint(**restored).restore(path).assert_consumed()
    assert rows(again) == expected
    iter(again).load_state_dict(restored["first"].state_dict())  # alone it is followed wherever it goes
    assert rows(again) == rows(restored["second"])
