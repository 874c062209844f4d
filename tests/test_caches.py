"""What a process keeps is bounded, can be seen, and can be let go; what is in use stays."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import caches, keras
from simdist.caches import BoundedCache, OfLiving
from simdist.cost.flops import cost_of
from simdist.cost.memory import temporaries_bytes
from simdist.program import kernels
from simdist.program.kernels import KEPT_KERNELS, Kernel, kernel_of
from simdist.program.values import Aval

X = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Each test begins with empty caches, and leaves none of its own behind."""
    caches.clear()
    gc.collect()
    yield
    caches.clear()


def never() -> Any:
    raise AssertionError("it is kept already")


def kernel(number: int) -> Kernel:
    return kernel_of("times", lambda x: [x * float(number)], [Aval((2,), "float32")])


def entries() -> dict[str, int]:
    return {info.name: info.entries for info in caches.table()}


# -- one cache --------------------------------------------------------------------------------------------------------


def test_what_was_used_least_recently_goes_when_a_cache_is_full() -> None:
    cache: BoundedCache[int, str] = BoundedCache(3)
    for key in (1, 2, 3):
        cache.get(key, lambda: "made")
    assert cache.get(1, never) == "made"
    cache.get(4, lambda: "made")
    assert list(cache) == [3, 1, 4]


class Step:
    """An object of which a cache keeps something."""


def test_what_is_kept_of_an_object_goes_with_it_or_when_the_cache_is_full() -> None:
    cache: OfLiving[Step, str] = OfLiving(2)
    steps = [Step() for _ in range(3)]
    assert [cache.get(step, lambda: "made") for step in steps] == ["made"] * 3
    assert len(cache) == 2 and cache.get(steps[2], never) == "made" and cache.get(steps[0], lambda: "again") == "again"
    del steps[2]
    assert cache.values() == ["again"]
    cache.drop(steps[0])
    cache.drop(steps[1])
    assert len(cache) == 0


def test_a_value_that_cannot_be_made_is_not_kept() -> None:
    cache: BoundedCache[int, int] = BoundedCache(3)
    with pytest.raises(ZeroDivisionError):
        cache.get(1, lambda: 1 // 0)
    assert len(cache) == 0 and 1 not in cache


def test_a_dropped_value_is_found_while_somebody_holds_it_and_not_afterwards() -> None:
    class Value:
        pass

    cache: BoundedCache[int, Value] = BoundedCache(1, finds_living=True)
    held = cache.get(1, Value)
    cache.get(2, Value)
    assert 1 not in cache and cache.get(1, never) is held
    cache.get(2, Value)
    gone = weakref.ref(held)
    del held
    assert gone() is None


def test_two_caches_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="'compiled kernels' already"):
        caches.shared("compiled kernels", 3)


# -- those of the process ---------------------------------------------------------------------------------------------


def test_more_architectures_than_fit_leave_the_kernels_at_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels._kernels.size == KEPT_KERNELS
    monkeypatch.setattr(kernels._kernels, "size", 10)  # so that few are enough
    for number in range(15):
        cost_of(kernel(number))
        temporaries_bytes(kernel(number))
    gc.collect()
    found = entries()
    # What was worked out for a kernel goes with it.
    assert (found["compiled kernels"], found["costs of kernels"], found["memory of kernels"]) == (10,) * 3


def test_an_evicted_kernel_is_made_again_with_the_same_cost_and_bits() -> None:
    x = np.array([0.1, 0.3], np.float32)
    first = kernel(3)
    before = (cost_of(first).flops, cost_of(first).bytes_moved, temporaries_bytes(first), np.asarray(first(x)[0]).tobytes())
    gone = weakref.ref(first)
    del first
    caches.clear()
    gc.collect()
    assert gone() is None
    again = kernel(3)
    assert (cost_of(again).flops, cost_of(again).bytes_moved, temporaries_bytes(again), np.asarray(again(x)[0]).tobytes()) == before


def test_kernels_in_use_are_one_for_one_structure_whatever_is_evicted() -> None:
    used = kernel(1)
    caches.clear()
    assert kernel(1) is used


def test_clearing_in_the_middle_of_a_training_changes_neither_numbers_nor_trace() -> None:
    def trained(between: Callable[[], Any]) -> tuple[str, bytes]:
        strategy = sd.MirroredStrategy(2, cluster=sd.Cluster({}))
        with strategy.scope():
            v = sd.Variable(np.ones(4, np.float32))

        @sd.function
        def step(x: Any) -> Any:
            def replica(x: Any) -> Any:
                _, (gradient,) = sd.value_and_grad(lambda: jnp.mean((x @ v.value) ** 2), [v])()
                v.assign_sub(0.1 * gradient)

            strategy.run(replica, args=(x,))

        for number in range(4):
            step(X[number : number + 8])
            between()
        return strategy.cluster.trace.digest(), v.numpy().tobytes()

    assert trained(lambda: (caches.clear(), gc.collect())) == trained(lambda: None)


# -- a long notebook --------------------------------------------------------------------------------------------------


def parameter_servers() -> tuple[Any, Any]:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    return cluster, sd.ParameterServerStrategy(cluster)


def mirrored() -> tuple[Any, Any]:
    cluster = sd.Cluster({})
    return cluster, sd.MirroredStrategy(2, cluster=cluster)


@pytest.mark.parametrize("make", [parameter_servers, mirrored])
def test_clusters_that_nobody_closed_go_and_leave_no_more_kernels_than_the_first(make: Callable[[], tuple[Any, Any]]) -> None:
    def train() -> list[weakref.ref[Any]]:
        cluster, strategy = make()
        with strategy.scope():
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
            model.compile(keras.optimizers.SGD(0.1), "mse")
        rows = sd.Dataset.from_tensor_slices((X, X[:, :1])).repeat().batch(8)
        model.fit(rows, epochs=1, steps_per_epoch=1, verbose=0)
        return [weakref.ref(cluster), weakref.ref(strategy), weakref.ref(model)]

    found, kept = train(), entries()
    for _ in range(3):
        found += train()
    gc.collect()
    assert [reference() for reference in found] == [None] * 12
    assert entries() == kept


def test_a_step_that_many_strategies_share_keeps_none_of_them() -> None:
    @sd.function
    def step(variable: Any) -> Any:
        return variable.assign_add(1.0)

    def once() -> weakref.ref[Any]:
        _, strategy = parameter_servers()
        with strategy.scope():
            variable = sd.Variable(0.0)
        coordinator = sd.ClusterCoordinator(strategy)
        coordinator.schedule(step, args=(variable,))
        coordinator.join()
        assert float(variable) == 1.0
        return weakref.ref(strategy)

    found = [once() for _ in range(3)]
    gc.collect()
    assert [reference() for reference in found] == [None] * 3
