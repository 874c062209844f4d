"""How often the bodies of counted while loops run: as often as JAX runs them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import simdist as sd
from simdist.cost.loops import MOST_FOLLOWED, trips_of
from simdist.errors import FailedPreconditionError

MOST_INT32 = 2**31 - 1


def counting(dtype: str, start: float, stop: float, step: float) -> Callable[[], Any]:
    """A function that counts in a dtype, and gives how often it has added."""
    first, last, added = (jnp.asarray(number, dtype) for number in (start, stop, step))

    def counted() -> Any:
        begin = (jnp.asarray(start, dtype), jnp.int32(0))
        return jax.lax.while_loop(lambda c: c[0] < jnp.asarray(stop, dtype), lambda c: (c[0] + jnp.asarray(step, dtype), c[1] + 1), begin)[
            1
        ]

    assert first.dtype == last.dtype == added.dtype == dtype
    return counted


def turns(function: Callable[[], Any]) -> int:
    """What is known of its loop before it runs."""
    jaxpr = jax.make_jaxpr(function)().jaxpr
    (eqn,) = (eqn for eqn in jaxpr.eqns if eqn.primitive.name == "while")
    return trips_of("counted", jaxpr, eqn)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_counter_that_rounds_is_added_up_in_its_dtype(dtype: str) -> None:
    different = 0
    for start, stop, step in itertools.product((0.0, -1.0, 0.3), (1.0, 5.0, 9.7), (0.1, 0.3, 0.7, 1.0)):
        function = counting(dtype, start, stop, step)
        known = turns(function)
        assert known == int(jax.jit(function)()), f"from {start} to {stop} by {step}"
        different += known != -((start - stop) // step)
    assert different


@pytest.mark.parametrize(
    ("dtype", "start", "stop", "step"), [("int32", 0, 9, 2), ("int32", -5, 6, 1), ("uint8", 3, 255, 4), ("int8", 5, 2, 1)]
)
def test_integers_are_counted_as_ever(dtype: str, start: int, stop: int, step: int) -> None:
    function = counting(dtype, start, stop, step)
    assert turns(function) == int(function())


@pytest.mark.parametrize(
    ("dtype", "start", "stop", "step"),
    [
        ("int32", 0, MOST_INT32, 2),  # runs over, and begins again below zero
        ("uint8", 0, 255, 2),
        ("float16", 0.0, 4096.0, 1.0),  # stands still at 2,048
        ("float32", 0.0, 1.0, 0.1 / MOST_FOLLOWED),
        ("float32", 0.0, float("inf"), 1.0),
        ("float32", 0.0, 1.0, float("nan")),
        ("int32", 0, 9, -1),
    ],
)
def test_loop_that_never_ends_or_is_too_long_to_follow_needs_a_declared_time(dtype: str, start: float, stop: float, step: float) -> None:
    with pytest.raises(FailedPreconditionError, match="has a while loop"):
        turns(counting(dtype, start, stop, step))


def test_last_number_of_a_type_can_be_reached() -> None:
    assert turns(counting("int32", 0, MOST_INT32, 1)) == MOST_INT32


def test_start_that_is_converted_is_what_it_becomes() -> None:
    def counted() -> Any:
        begin = jax.lax.convert_element_type(2.7, "int32")
        return jax.lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, c[1] + 1), (begin, jnp.int32(0)))[1]

    assert turns(counted) == int(counted()) == 7


def test_step_with_such_a_loop_takes_the_time_of_its_turns() -> None:
    def seconds(stop: float, scan: int | None) -> float:
        cluster = sd.Cluster({"worker": 1}, hardware=sd.hardware.Device(flops=1e6, memory_bandwidth=1e12, launch_overhead=0.0))
        strategy = sd.OneDeviceStrategy(cluster=cluster)
        with strategy.scope():
            v = sd.Variable(jnp.ones((30, 30)))

        def body(x: Any) -> Any:
            return x @ x * 0.01

        def looped(x: Any) -> Any:
            if scan is not None:
                return jax.lax.scan(lambda x, _: (body(x), None), x, None, length=scan)[0]
            return jax.lax.while_loop(lambda c: c[0] < stop, lambda c: (c[0] + 0.1, body(c[1])), (0.0, x))[1]

        step = sd.function(lambda: strategy.run(lambda: v.assign(looped(v.value))))
        step()
        return cluster.now

    assert seconds(5.0, None) == pytest.approx(seconds(5.0, 51), rel=1e-3)
