"""Remote values: they wait, they give what the closure gave, or its error, as often as they are asked."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist.errors import CancelledError, NotFoundError


@pytest.fixture
def coordinator() -> sd.ClusterCoordinator:
    return sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})))


def test_fetch_waits_until_the_closure_has_run_and_takes_no_time_afterwards(coordinator: sd.ClusterCoordinator) -> None:
    value = coordinator.schedule(sd.function(lambda x: {"ones": x + 1.0, "name": "x"}, seconds=2.0), args=(np.zeros(2, np.float32),))
    assert repr(value) == "RemoteValue(closure 0, pending)" and coordinator.engine.now == 0.0
    fetched = value.fetch()
    now = coordinator.engine.now
    assert now > 2.0 and repr(value) == "RemoteValue(closure 0, ready)"
    assert fetched["name"] == "x" and fetched["ones"].tolist() == [1.0, 1.0] and isinstance(fetched["ones"], np.ndarray)
    assert value.fetch()["ones"].tolist() == [1.0, 1.0] and coordinator.engine.now == now


def test_a_number_that_was_fetched_may_decide_what_happens_next(coordinator: sd.ClusterCoordinator) -> None:
    value = coordinator.schedule(sd.function(lambda x: x + 1.0), args=(np.zeros(2, np.float32),))
    coordinator.join()
    coordinator.schedule(lambda: 1).fetch()
    assert not coordinator.engine.trace.value_dependent
    value.fetch()
    coordinator.schedule(lambda: 1).fetch()
    assert coordinator.engine.trace.value_dependent


def test_get_gives_jax_arrays_and_float_a_number(coordinator: sd.ClusterCoordinator) -> None:
    value = coordinator.schedule(lambda: np.float32(0.5))
    assert isinstance(value.get(), jax.Array) and float(value) == 0.5


def test_the_error_of_a_closure_is_raised_at_each_fetch(coordinator: sd.ClusterCoordinator) -> None:
    failing, dropped = coordinator.schedule(lambda: {}["missing"]), coordinator.schedule(lambda: 1)
    with pytest.raises(KeyError, match="missing"):
        coordinator.join()
    for _ in range(2):
        with pytest.raises(KeyError, match="missing"):
            failing.fetch()
        with pytest.raises(CancelledError, match=r"Closure 1 was cancelled, because another closure failed: KeyError\('missing'\)"):
            dropped.fetch()
    assert repr(failing) == "RemoteValue(closure 0, failed)"


def test_fetch_of_the_coordinator_goes_through_structures(coordinator: sd.ClusterCoordinator) -> None:
    values = {"a": [coordinator.schedule(lambda: 1)], "b": (coordinator.schedule(lambda: 2), "as it is")}
    assert coordinator.fetch(values) == {"a": [1], "b": (2, "as it is")}


def test_parts_of_a_value_wait_at_their_fetch(coordinator: sd.ClusterCoordinator) -> None:
    step = sd.function(lambda x: {"pair": (x + 1.0, [x * 2.0, "name"])}, seconds=2.0)
    value = coordinator.schedule(step, args=(np.float32(3.0),))
    part = value["pair"][1]
    assert repr(part) == "RemoteValue(closure 0['pair'][1], pending)" and coordinator.engine.now == 0.0
    assert float(value["pair"][0].fetch()) == float(value["pair"][0]) == 4.0
    assert coordinator.fetch([part, {"name": part[1]}, 3]) == [[6.0, "name"], {"name": "name"}, 3]
    assert isinstance(part[0].get(), jax.Array) and part.state == "ready"


def test_a_loop_over_the_state_at_a_second_that_stands_still_is_warned_of_once(coordinator: sd.ClusterCoordinator) -> None:
    value, other = coordinator.schedule(lambda: sd.sleep(1.0)), coordinator.schedule(lambda: None)
    for _ in range(20):
        assert (value.state, other.state, repr(value), repr(value), repr(value)).count("pending") == 2
    with pytest.warns(RuntimeWarning, match=r'the state of closure 0 was "pending" 30 times at 0 s.*sd\.sleep') as caught:
        for _ in range(20):
            assert value.state == value["part"].state == "pending"
    assert len(caught) == 1 and caught[0].filename == __file__
    while value.state == "pending":
        sd.sleep(0.02)


@pytest.mark.parametrize(
    ("key", "words"), [("loss", r"\['loss'\]: KeyError.*a dict with the keys \['a'\]"), (0, r"has no part \[0\]: KeyError")]
)
def test_a_part_that_is_not_there_is_named_at_its_fetch(key: Any, words: str, coordinator: sd.ClusterCoordinator) -> None:
    value = coordinator.schedule(lambda: {"a": (1, 2)})
    part = value[key]
    with pytest.raises(NotFoundError, match=words):
        part.fetch()
    for missing, kind in ((value["a"][2], "IndexError.*a tuple of 2"), (value["a"][0][0], "TypeError.*a int")):
        with pytest.raises(NotFoundError, match=kind):
            missing.fetch()
    coordinator.join()


@pytest.mark.parametrize("convert", [np.asarray, jnp.asarray, lambda value: np.mean([value, value])], ids=["numpy", "jax", "mean"])
def test_a_value_is_no_array_before_it_is_fetched(coordinator: sd.ClusterCoordinator, convert: Callable[[Any], Any]) -> None:
    value = coordinator.schedule(lambda: 2.0)
    with pytest.raises(TypeError, match=r"RemoteValue\(closure 0, pending\) is no array.*fetch\(\)"):
        convert(value)
    assert float(convert(value.fetch())) == 2.0


def test_a_value_is_not_unpacked(coordinator: sd.ClusterCoordinator) -> None:
    value = coordinator.schedule(lambda: (1, 2))
    with pytest.raises(TypeError, match=r"cannot unpack RemoteValue\(closure 0, pending\).* value\[0\] .*value\.fetch\(\)"):
        _first, _second = value
    with pytest.raises(TypeError, match="cannot unpack"):
        list(value[0])
    assert coordinator.fetch((value[1], value[0])) == (2, 1)


def test_a_function_without_a_result_gives_none(coordinator: sd.ClusterCoordinator) -> None:
    values = [
        coordinator.schedule(lambda: None),
        coordinator.schedule(sd.function(lambda: None)),
        coordinator.schedule(sd.function(lambda: {"a": None})),
    ]
    assert coordinator.fetch(values) == [None, None, {"a": None}]
    assert values[2]["a"].fetch() is None


@pytest.mark.parametrize("take", [copy.copy, pickle.dumps], ids=lambda take: take.__name__)
def test_a_remote_value_is_neither_copied_nor_pickled(take: Any, coordinator: sd.ClusterCoordinator) -> None:
    with pytest.raises(TypeError, match=r"Take its number, fetch\(\)"):
        take(coordinator.schedule(lambda: 1))


def test_a_remote_value_is_no_argument_of_another_closure(coordinator: sd.ClusterCoordinator) -> None:
    value = coordinator.schedule(lambda: 1)
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"Fetch it first: schedule\(fn, args=\(value.fetch\(\),\)\)"):
        coordinator.schedule(print, args=({"nested": [value]},))


def test_what_is_no_array_is_fetched_and_not_got(coordinator: sd.ClusterCoordinator) -> None:
    value = coordinator.schedule(lambda: {"name": "a", "loss": 1.0})
    with pytest.raises(TypeError, match=r"get\(\) of RemoteValue\(closure 0, ready\) .* none of str.* fetch\(\)"):
        value.get()
    assert float(value["loss"].get()) == 1.0 and value.fetch()["name"] == "a"


def test_an_error_that_is_fetched_again_and_again_keeps_no_frames_of_those_who_asked(coordinator: sd.ClusterCoordinator) -> None:
    value = coordinator.schedule(lambda: 1 / 0)
    lengths: set[int] = set()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError) as caught:
            value.fetch()
        lengths.add(len(caught.traceback))
    assert len(lengths) == 1
