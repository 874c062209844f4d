"""What launched mains combine: initial values, replica-local values, and what they reduce and gather."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.program.function import StepFunction


def results(main: Callable[[], Any], workers: int = 2) -> dict[str, Any]:
    run = sd.Cluster({"worker": workers}).launch(main)
    run.join()
    return run.results


def test_initial_values_are_those_of_the_chief() -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            v = sd.Variable(float(strategy.worker_index + 7))
        before = float(v.numpy())
        strategy.run(lambda: sd.get_replica_context().all_reduce("sum", v.value))
        return before, float(v.numpy())

    assert results(main) == {"worker:0": (7.0, 7.0), "worker:1": (8.0, 7.0)}


def test_initial_values_of_a_variable_that_is_created_later_are_shared_too() -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            first = sd.Variable(1.0)
        strategy.run(lambda: first.value)
        with strategy.scope():
            second = sd.Variable(float(strategy.worker_index + 7))
        strategy.run(lambda: second.value)
        return float(second.numpy())

    assert results(main) == {"worker:0": 7.0, "worker:1": 7.0}


def test_read_of_replica_local_values_sums_those_of_all_workers() -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            count = sd.Variable(
                0.0, synchronization=sd.VariableSynchronization.ON_READ, aggregation=sd.VariableAggregation.SUM, trainable=False
            )
        strategy.run(lambda: count.assign_add(10.0 ** sd.get_replica_context().replica_id_in_sync_group))
        return float(count.numpy())

    assert results(main, workers=3) == dict.fromkeys(("worker:0", "worker:1", "worker:2"), 111.0)


def test_plain_value_counts_once_for_each_worker_whatever_its_devices() -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy(devices_per_worker=2)
        value = np.float32(strategy.worker_index + 1)
        return float(strategy.reduce("sum", value, axis=None)), float(strategy.reduce("mean", value, axis=None))

    assert set(results(main).values()) == {(3.0, 1.5)}


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("value", [np.float32(np.inf), np.float32([-np.inf, 2.0]), np.float32(np.nan), True])
def test_plain_value_that_is_no_finite_number_counts_once(value: Any, devices: int) -> None:
    def main() -> Any:
        return np.asarray(sd.MultiWorkerMirroredStrategy(devices_per_worker=devices).reduce("sum", value, axis=None))

    for found in results(main).values():
        np.testing.assert_array_equal(found, np.add(value, value, dtype=found.dtype))


NUMBERS = [3, -2.5, True, np.float16(3), np.int64(3), np.bool_(True), np.float64(2.0), np.float32([1.0, 2.0])]


@pytest.mark.parametrize("devices", [1, 2])
def test_mean_of_a_plain_value_is_what_a_notebook_has(devices: int) -> None:
    given = {"numbers": NUMBERS, "none": None}

    def main() -> Any:
        return sd.MultiWorkerMirroredStrategy(devices_per_worker=devices).reduce("mean", given, axis=None)

    expected = sd.MirroredStrategy(2 * devices).reduce("mean", given, axis=None)
    for found in results(main).values():
        for mean, wanted in zip(found["numbers"], expected["numbers"], strict=True):
            assert (type(mean), getattr(mean, "dtype", None)) == (type(wanted), getattr(wanted, "dtype", None))
            np.testing.assert_array_equal(mean, wanted)
        assert found["none"] is None


@pytest.mark.parametrize("value", [np.int64(2**40), np.array([2**40]), {"large": np.float64(1e300)}, "text", b"text"])
def test_plain_value_that_no_step_can_hold_is_refused(value: Any) -> None:
    def main() -> Any:
        sd.MultiWorkerMirroredStrategy().reduce("sum", value, axis=None)

    with pytest.raises(sd.errors.InvalidArgumentError, match="a value of reduce"):
        results(main)


@pytest.mark.parametrize("numbers", [(3, 4), (3, 5), (-1, 1), (0.5, 0.25), (2**24, 2**24 + 2)])
def test_mean_of_pythons_numbers_that_differ_is_that_of_statistics(numbers: tuple[Any, Any]) -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        return strategy.reduce("mean", numbers[strategy.worker_index], axis=None)

    expected = statistics.mean(numbers)
    for found in results(main).values():
        assert found == pytest.approx(expected, rel=2**-24)
        assert type(found) is (float if expected > 2**23 else type(expected))  # a float where float32 may not have it exactly


def test_gather_along_a_later_axis_joins_different_lengths() -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        n = strategy.worker_index + 1
        return np.asarray(strategy.gather(np.full((2, n), n, np.float32), axis=-1)).tolist()

    assert set(map(str, results(main).values())) == {str([[1.0, 2.0, 2.0]] * 2)}


def test_repeated_exchange_of_one_size_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[str] = []
    trace = StepFunction.trace

    def counted(fn: StepFunction, *args: Any, **kwargs: Any) -> Any:
        traced.append(fn.name)
        return trace(fn, *args, **kwargs)

    monkeypatch.setattr(StepFunction, "trace", counted)

    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        return [strategy.bytes_of_all(bytes([number, strategy.worker_index])) for number in range(5)]

    found = results(main)
    assert found["worker:0"] == found["worker:1"] == [[bytes([number, 0]), bytes([number, 1])] for number in range(5)]
    assert traced == ["gather"] * 2 * 2  # on each main: of their lengths, and of the bytes


def test_a_reduce_between_steps_is_traced_once_for_each_operation_and_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[str] = []
    original = StepFunction.trace
    monkeypatch.setattr(StepFunction, "trace", lambda self, *args, **options: traced.append(self.name) or original(self, *args, **options))

    def main() -> list[list[float]]:
        strategy = sd.MultiWorkerMirroredStrategy()
        found = []
        scaled = sd.function(lambda x: x * (1.0 + sd.get_replica_context().replica_id_in_sync_group))
        for number in range(4):
            values = strategy.run(scaled, args=(np.float32([number, 1.0]),))
            found.append(
                [
                    *np.asarray(strategy.reduce("sum", values, axis=None)).tolist(),
                    *np.asarray(strategy.reduce("mean", values, axis=None)).tolist(),
                    float(strategy.reduce("mean", values, axis=0)),
                    float(strategy.reduce("sum", np.float32(number), axis=None)),
                ]
            )
        return found

    expected = [[3.0 * n, 3.0, 1.5 * n, 1.5, 0.75 * (n + 1), 2.0 * n] for n in range(4)]
    assert results(main) == {"worker:0": expected, "worker:1": expected}
    assert traced.count("reduce") == 2 * 4


@pytest.mark.parametrize("axis", [True, 1.0, "x", [0, "a"], np.array([0, 1]), {0: 1}])
def test_an_axis_that_is_no_number_is_refused_also_after_one_that_is_equal(axis: Any) -> None:
    def main() -> None:
        strategy = sd.MultiWorkerMirroredStrategy()
        values = strategy.run(sd.function(lambda: jnp.ones((2, 3))))
        assert [strategy.reduce("sum", values, axis=one).shape for one in (1, np.int64(1), [0, 1])] == [(2,), (2,), ()]
        strategy.reduce("sum", values, axis=axis)

    with pytest.raises(TypeError, match=r"^axis is .*; expected an integer"):
        results(main)


def test_a_number_of_python_is_reduced_as_the_number_that_it_is_each_time() -> None:
    def main() -> list[Any]:
        strategy = sd.MultiWorkerMirroredStrategy()
        worker = strategy.cluster_resolver.task_id
        return [strategy.reduce("mean", number + worker, axis=None) for number in (1, 2.5, 1)]

    assert list(results(main, workers=3).values()) == [[2, 3.5, 2]] * 3


def test_a_read_of_replica_local_values_is_one_collective_and_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[str] = []
    original = StepFunction.trace
    monkeypatch.setattr(StepFunction, "trace", lambda self, *args, **options: traced.append(self.name) or original(self, *args, **options))

    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            mean = keras.metrics.Mean()
        found = []
        for number in range(3):
            strategy.run(sd.function(lambda x: mean.update_state(x + strategy.worker_index)), args=(np.float32(number),))
            found.append(float(mean.total.value))
        return found

    cluster = sd.Cluster({"worker": 2})
    run = cluster.launch(main)
    run.join()
    assert run.results == {"worker:0": [1.0, 4.0, 9.0], "worker:1": [1.0, 4.0, 9.0]}
    assert traced.count("read mean/total") == 2
    assert sum(span.category == "collective" and span.lane == "worker:0" for span in cluster.trace.spans) == 3


REFUSED = [
    (lambda: jax.random.key(0), "typed random key"),
    (lambda: np.array(["a"]), "strings"),
    (lambda: np.ma.array([1.0, 2.0], mask=[False, True], dtype=np.float32), "mask"),
    (lambda: sd.PerReplica([np.ones(2, np.float32)] * 2), "PerReplica of 2 values .* on 1 replicas"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_a_value_that_cannot_be_reduced_is_refused_in_words(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=message):
        results(lambda: sd.MultiWorkerMirroredStrategy().reduce("sum", make(), axis=None))
