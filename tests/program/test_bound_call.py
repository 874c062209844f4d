"""How the arguments of a step are sorted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.program.bound_call import ReplicaLocalSpec, bound, bound_for_each
from simdist.program.per_replica import PerReplica


def key_of(*args: Any) -> tuple[Any, ...]:
    return bound("step", args, {}).key


def test_arguments_are_sorted_into_iterators_arrays_and_what_is_fixed() -> None:
    iterator = iter(Dataset.range(4).batch(2))
    call = bound("step", (iterator, np.ones(3), 7), {"scale": jnp.float32(2)})
    assert call.iterators == (iterator,)
    assert [array.shape for array in call.arrays] == [(3,), ()]
    assert call.leaves[2] == 7


def test_calls_share_a_program_where_arrays_have_equal_types_and_the_rest_is_equal() -> None:
    assert key_of(np.zeros(3), 7) == key_of(np.ones(3), 7)
    assert key_of(np.zeros(3), 7) != key_of(np.zeros(4), 7)
    assert key_of(np.zeros(3), 7) != key_of(np.zeros(3), 8)
    assert key_of(np.zeros(3)) != key_of([np.zeros(3)])


def test_an_array_that_its_owner_changes_after_the_call_is_that_of_the_call() -> None:
    array = np.zeros(2)
    call = bound("step", (array,), {})
    array[:] = 5
    assert call.arrays[0].tolist() == [0, 0]


def test_a_value_of_each_replica_is_marked_with_the_rows_of_all() -> None:
    values = PerReplica([np.ones(2), np.ones(3)], global_rows=5)
    call = bound("step", (values, 1), {}, lambda leaf: leaf.values[1] if isinstance(leaf, PerReplica) else leaf)
    assert call.local_specs == (ReplicaLocalSpec(5, is_uneven=True), None)
    assert bound("step", (PerReplica([np.ones(2), np.zeros(2)]),), {}).local_specs == (ReplicaLocalSpec(),)
    assert [array.shape for array in call.arrays] == [(3,)]


def test_calls_of_several_replicas_have_one_key_where_their_arguments_are_alike() -> None:
    parts = PerReplica([np.zeros(2), np.ones(2), np.ones(3)])
    resolves = [lambda leaf, rank=rank: leaf.values[rank] if isinstance(leaf, PerReplica) else leaf for rank in range(3)]
    first, second, third = bound_for_each("step", (parts, 7), {"rate": 0.5}, resolves)
    assert first.key is second.key
    assert first.key != third.key
    assert [call.arrays[0].tolist() for call in (first, second, third)] == [[0, 0], [1, 1], [1, 1, 1]]
    for rank, call in enumerate((first, second, third)):
        assert call.key == bound("step", (parts, 7), {"rate": 0.5}, resolves[rank]).key


@pytest.mark.parametrize("other", [np.ones((2, 1), np.float32), np.ones(2, np.int32), np.ones(2, ">f4"), jnp.ones(2), np.float32(1), 1.0])
def test_a_call_has_the_key_that_it_has_alone_whatever_came_before_it(other: Any) -> None:
    values = [np.zeros(2, np.float32), np.ones(2, np.float32), other, np.ones(2, np.float32)]
    resolves: list[Callable[[Any], Any]] = [lambda _, value=value: value for value in values]
    for call, resolve in zip(bound_for_each("step", (0,), {}, resolves), resolves, strict=True):
        alone = bound("step", (0,), {}, resolve)
        assert (call.key, [array.shape for array in call.arrays]) == (alone.key, [array.shape for array in alone.arrays])


def test_calls_of_replicas_whose_fixed_arguments_differ_have_keys_of_their_own() -> None:
    first, second = bound_for_each("step", (0,), {}, [lambda _: "one", lambda _: "two"])
    assert (first.key[2], second.key[2]) == (("one",), ("two",))


def test_an_argument_that_cannot_be_fixed_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="step was given an argument that is neither an array, an iterator nor a hashable"):
        bound("step", ({1, 2},), {})


@pytest.mark.parametrize("given", [np.array([1, 3]), np.int64(3), np.array([1.5, -1.0]), np.array([1 + 2j])], ids=str)
def test_arguments_of_numpys_dtypes_become_those_that_jax_keeps(given: Any) -> None:
    (array,) = bound("step", (given,), {}).arrays
    assert array.dtype == jnp.asarray(given).dtype
    np.testing.assert_array_equal(array, given)
    assert key_of(given) == key_of(jnp.asarray(given))


def test_an_argument_that_becomes_another_number_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"an argument of step has 1099511627776, which does not fit int32"):
        bound("step", (np.array([2**40]),), {})


def test_numbers_of_different_types_are_different_arguments() -> None:
    numbers = [1, 1.0, True, 0.0, -0.0, 0, 1 + 0j, 2**6000]
    keys = [bound("step", (number,), {}).key for number in numbers]
    assert len(set(keys)) == len(numbers)
    assert keys == [bound("step", (number,), {}).key for number in numbers]
    assert bound("step", (math.nan,), {}).key == bound("step", (float("nan"),), {}).key


def test_a_step_is_traced_for_the_type_of_a_number() -> None:
    seven, nan = np.int32(7), math.nan
    divided = sd.function(lambda n: jnp.asarray(seven) // n)
    counted = sd.function(lambda n: jnp.copysign(1.0, n))
    with sd.OneDeviceStrategy().scope():
        assert [str(divided(n).dtype) for n in (2, 2.0, 2)] == ["int32", "float32", "int32"]
        assert [float(counted(n)) for n in (0.0, -0.0)] == [1, -1]
        assert divided.traces == 2
        for _ in range(3):
            divided(nan)
        assert divided.traces == 3


def test_a_typed_random_key_is_refused_with_a_way_to_pass_it() -> None:
    with sd.OneDeviceStrategy().scope():
        with pytest.raises(InvalidArgumentError, match=r"argument.*typed random key.*key_data"):
            sd.function(lambda key: jax.random.uniform(key))(jax.random.key(1))
        with pytest.raises(InvalidArgumentError, match=r"result.*typed random key.*key_data"):
            sd.function(lambda: jax.random.key(1))()
        passed = sd.function(lambda data: jax.random.uniform(jax.random.wrap_key_data(data)))
        assert float(passed(jax.random.key_data(jax.random.key(1)))) == float(jax.random.uniform(jax.random.key(1)))


@pytest.mark.parametrize("text", [np.array("a"), np.array(["a", "b"]), np.str_("a"), np.array(b"a"), np.array([None, "a"], object)])
def test_text_among_the_results_of_a_step_is_refused_with_a_way_to_do_without(text: object) -> None:
    with sd.OneDeviceStrategy().scope():
        with pytest.raises(InvalidArgumentError, match=r"a result of \S+ holds (strings|object).*dataset.map"):
            sd.function(lambda: {"ones": jnp.ones(2), "text": text})()
        assert sd.function(lambda: "as it is")() == "as it is"
