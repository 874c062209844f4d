"""Plain values to bytes and back, and what happens to a message that is not sound."""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

import simdist as sd
from simdist.errors import FailedPreconditionError, InvalidArgumentError, SimdistError
from simdist.runtime.wire import VERSION, decode, encode

dtypes = st.sampled_from(
    ["bool", "int8", "uint16", "int64", "float16", "float32", ">f4", "float64", "complex64", "bfloat16", "float8_e4m3fn"]
)
shapes = arrays_of.array_shapes(min_dims=0, min_side=0, max_side=4)


@st.composite
def some_arrays(draw: Any) -> np.ndarray:
    """Arrays of every dtype, of any bits; some of them are views that are not contiguous."""
    dtype, shape = jnp.dtype(draw(dtypes)), draw(shapes)
    size = dtype.itemsize * math.prod(shape)
    data = draw(st.binary(min_size=size, max_size=size))
    if dtype.kind == "b":
        data = bytes(byte & 1 for byte in data)
    return np.frombuffer(data, dtype).reshape(shape).T


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.binary(max_size=8)
    | some_arrays(),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    """Equal in type and in every bit."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        little = one.astype(one.dtype.newbyteorder("<")) if one.dtype.byteorder == ">" else one
        return (little.dtype.name, one.shape, little.tobytes()) == (other.dtype.name, other.shape, other.tobytes())
    if isinstance(one, float):
        return isinstance(other, float) and struct.pack("<d", one) == struct.pack("<d", other)
    return type(one) is type(other) and one == other


@given(plain)
def test_a_value_comes_back_bit_by_bit(value: Any) -> None:
    assert same(value, decode(encode(value)))


@given(plain)
def test_equal_values_are_equal_bytes(value: Any) -> None:
    assert encode(decode(encode(value))) == encode(value)


def test_lists_come_back_as_tuples_and_scalars_and_jax_arrays_as_arrays() -> None:
    found: Any = decode(encode([np.float32(1.5), jnp.arange(3, dtype=jnp.bfloat16), [2]]))
    assert type(found) is tuple and found[2] == (2,)
    assert (found[0].dtype, found[0].shape, float(found[0])) == (np.float32, (), 1.5)
    assert (found[1].dtype, found[1].tolist()) == (jnp.bfloat16, [0, 1, 2])


# -- messages that are not sound ---------------------------------------------------------------------------------------------

MESSAGE = encode(("step", 3, np.arange(5, dtype=np.float32), ("x", None, 1.5)))


def test_a_message_that_was_cut_off_anywhere_is_refused() -> None:
    for length in range(len(MESSAGE)):
        with pytest.raises(InvalidArgumentError, match=r"cannot be read: .*send it again"):
            decode(MESSAGE[:length])


@given(st.integers(0, 8 * len(MESSAGE) - 1))
def test_a_message_of_which_one_bit_fell_over_is_refused(bit: int) -> None:
    damaged = bytearray(MESSAGE)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises((InvalidArgumentError, FailedPreconditionError)):
        decode(bytes(damaged))


def test_a_message_with_something_after_it_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="were announced"):
        decode(MESSAGE + b"x")


@given(st.binary(max_size=40))
def test_content_that_makes_no_sense_is_refused_also_with_a_right_checksum(body: bytes) -> None:
    message = struct.pack("<4sHIQ", b"SDst", VERSION, zlib.crc32(body), len(body)) + body
    try:
        assert encode(decode(message)) == message
    except SimdistError as error:
        assert "cannot be read" in str(error)


@pytest.mark.parametrize("version", [0, VERSION + 1])
def test_another_version_of_the_format_is_refused_with_both_numbers(version: int) -> None:
    other = MESSAGE[:4] + struct.pack("<H", version) + MESSAGE[6:]
    with pytest.raises(FailedPreconditionError, match=f"version {version} of the format, and this process reads version {VERSION}"):
        decode(other)


# -- what is no data ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda: 1, "a function lives in this process"),
        (sd.Variable, "a type lives in this process"),
        ({"a": 1}, "a dict lives in this process"),
        (2**63, "more than 64 bits"),
        (np.array(["text"]), "Only arrays of numbers"),
        (np.array([object()]), "Only arrays of numbers"),
        (np.array([np.datetime64(0, "s")]), "Only arrays of numbers"),
        (np.zeros(1, [("a", "f4")]), "Only arrays of numbers"),
        (jax.random.key(0), "jax.random.key_data"),
    ],
    ids=["function", "type", "dict", "large", "text", "objects", "dates", "records", "key"],
)
def test_what_is_no_data_is_refused_with_what_to_do(value: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        encode(("deep", ([value],)))


def test_a_value_that_is_being_traced_is_refused() -> None:
    def traced(x: Any) -> Any:
        with pytest.raises(InvalidArgumentError, match="cannot be sent"):
            encode(x)
        return x

    jax.jit(traced)(1.0)


def test_endless_nesting_is_refused() -> None:
    value: Any = ()
    for _ in range(100):
        value = (value,)
    with pytest.raises(InvalidArgumentError, match="inside each other"):
        encode(value)


def test_nothing_of_the_senders_memory_is_shared() -> None:
    array = np.arange(4, dtype=np.float32)
    message = encode(array)
    array += 10
    found: Any = decode(message)
    assert found.tolist() == [0, 1, 2, 3] and not found.flags.writeable and not np.shares_memory(found, array)
