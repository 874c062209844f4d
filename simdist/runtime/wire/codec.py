"""Plain values to bytes and back: numbers, text, bytes, arrays, and tuples of these.

A message is a header (a mark, the version of the format, a checksum, the length of the body) and a body. In the body each value is
one byte that says what it is, and then its content; all numbers are little-endian. Arrays carry the name of their dtype, their
shape, and their elements in row-major order, so that the dtypes of JAX (bfloat16, float8) travel too.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from simdist.errors import FailedPreconditionError, InvalidArgumentError

__all__ = ["VERSION", "Plain", "decode", "encode"]

VERSION = 1
"""Of the format. A change of what any byte means makes it one more."""

Plain: TypeAlias = "bool | int | float | str | bytes | np.ndarray | tuple[Plain, ...] | None"

MARK = b"SDst"
HEADER = struct.Struct("<4sHIQ")  # mark, version, checksum of the body, length of the body
INTEGER, FLOAT, LENGTH = struct.Struct("<q"), struct.Struct("<d"), struct.Struct("<Q")
DEEPEST = 64


def encode(value: Any) -> bytes:
    """The message of a value.

    Args:
        value: None, a bool, an int of 64 bits, a float, text, bytes, an array of numbers, or a tuple or list of such values; lists
            come back as tuples, and NumPy's scalars as arrays.

    Raises:
        InvalidArgumentError: something in it is no data.

    Example:
        >>> decode(encode(("step", 3, [1.5, None])))
        ('step', 3, (1.5, None))
    """
    parts: list[bytes] = []
    _write(value, parts, 0)
    body = b"".join(parts)
    return HEADER.pack(MARK, VERSION, zlib.crc32(body), len(body)) + body


def decode(data: bytes) -> Plain:
    """The value of a message. Its arrays are read-only views of the message.

    Raises:
        InvalidArgumentError: it is no message, or not a whole and sound one.
        FailedPreconditionError: another version of the format.
    """
    if len(data) < HEADER.size:
        raise _damaged(f"it has {len(data)} bytes, and its header alone has {HEADER.size}")
    mark, version, checksum, length = HEADER.unpack_from(data)
    if mark != MARK:
        raise _damaged(f"it begins with {bytes(mark)!r}, where {MARK!r} should stand")
    if version != VERSION:
        raise FailedPreconditionError(
            f"A message has version {version} of the format, and this process reads version {VERSION}. Install the same version of simdist "
            "on both sides."
        )
    if len(data) - HEADER.size != length:
        raise _damaged(f"its body has {len(data) - HEADER.size} bytes, and {length} were announced")
    if zlib.crc32(memoryview(data)[HEADER.size :]) != checksum:
        raise _damaged("its checksum is another one")
    try:
        value, end = _read(data, HEADER.size, 0)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, struct.error) as error:
        raise _damaged(f"its content makes no sense: {error!r}") from None
    if end != len(data):
        raise _damaged(f"{len(data) - end} bytes are left over")
    return value


def _damaged(why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"A message cannot be read: {why}. It was damaged, or is no message of simdist; send it again.")


# -- writing -------------------------------------------------------------------------------------------------------------


def _write(value: Any, parts: list[bytes], depth: int) -> None:
    if depth > DEEPEST:
        raise InvalidArgumentError(f"A value with more than {DEEPEST} tuples inside each other cannot be sent. Flatten it.")
    if value is None:
        parts.append(b"N")
    elif isinstance(value, bool):
        parts.append(b"T" if value else b"F")
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise InvalidArgumentError(f"The number {value} cannot be sent: it has more than 64 bits. Send it as text, or as an array.")
        parts += [b"i", INTEGER.pack(value)]
    elif isinstance(value, float) and not isinstance(value, np.generic):
        parts += [b"f", FLOAT.pack(value)]
    elif isinstance(value, str) and not isinstance(value, np.generic):
        _write_bytes(b"s", value.encode("utf-8", "surrogatepass"), parts)
    elif isinstance(value, bytes) and not isinstance(value, np.generic):
        _write_bytes(b"b", value, parts)
    elif isinstance(value, (tuple, list)):
        parts += [b"t", LENGTH.pack(len(value))]
        for item in value:
            _write(item, parts, depth + 1)
    elif isinstance(value, (np.ndarray, np.generic, jax.Array)) and not isinstance(value, jax.core.Tracer):
        _write_array(value, parts)
    else:
        raise InvalidArgumentError(
            f"{value!r} cannot be sent: a {type(value).__name__} lives in this process, and only numbers, text and arrays travel. Pass "
            "arrays, and put code into a step (@sd.function)."
        )


def _write_bytes(tag: bytes, content: bytes, parts: list[bytes]) -> None:
    parts += [tag, LENGTH.pack(len(content)), content]


def _write_array(value: Any, parts: list[bytes]) -> None:
    if not isinstance(value, (np.ndarray, np.generic)) and jnp.issubdtype(value.dtype, jax.dtypes.extended):
        raise InvalidArgumentError(f"An array of {value.dtype} cannot be sent. Send the numbers in it: jax.random.key_data(key).")
    array = np.asarray(value)
    if not _is_sendable(array.dtype):
        raise InvalidArgumentError(f"An array of {array.dtype} cannot be sent. Only arrays of numbers and bools travel; convert it first.")
    parts.append(b"a")
    _write_bytes(b"s", array.dtype.name.encode(), parts)
    parts.append(LENGTH.pack(array.ndim))
    parts += [LENGTH.pack(length) for length in array.shape]
    little = array.astype(array.dtype.newbyteorder("<"), copy=False) if array.dtype.kind in "iufc" else array
    _write_bytes(b"b", little.tobytes(), parts)


def _is_sendable(dtype: np.dtype[Any]) -> bool:
    """Bools and numbers; of those that only JAX knows the ones that it can name."""
    if dtype.kind in "biufc":
        return True
    try:
        return dtype.fields is None and not dtype.hasobject and jnp.dtype(dtype.name) == dtype and jnp.issubdtype(dtype, jnp.number)
    except TypeError:
        return False


# -- reading -------------------------------------------------------------------------------------------------------------

Reader = Callable[[bytes, int, int], tuple[Any, int]]


def _read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    """A value, and where it ends."""
    if depth > DEEPEST:
        raise ValueError(f"more than {DEEPEST} tuples inside each other")
    return READERS[data[at : at + 1]](data, at + 1, depth)


def _read_bytes(data: bytes, at: int, _: int) -> tuple[bytes, int]:
    (length,) = LENGTH.unpack_from(data, at)
    begin, end = at + LENGTH.size, at + LENGTH.size + length
    if end > len(data):
        raise ValueError("a length leads beyond the end")
    return data[begin:end], end


def _read_text(data: bytes, at: int, depth: int) -> tuple[str, int]:
    content, end = _read_bytes(data, at, depth)
    return content.decode("utf-8", "surrogatepass"), end


def _read_tuple(data: bytes, at: int, depth: int) -> tuple[tuple[Any, ...], int]:
    (length,) = LENGTH.unpack_from(data, at)
    at += LENGTH.size
    if length > len(data) - at:
        raise ValueError("more items than bytes")
    items: list[Any] = []
    for _ in range(length):
        item, at = _read(data, at, depth + 1)
        items.append(item)
    return tuple(items), at


def _read_array(data: bytes, at: int, depth: int) -> tuple[np.ndarray, int]:
    name, at = _read(data, at, depth)
    dtype = jnp.dtype(name)
    if not _is_sendable(dtype):
        raise ValueError(f"an array of {name}")
    (axes,) = LENGTH.unpack_from(data, at)
    shape = struct.unpack_from(f"<{axes}Q", data, at := at + LENGTH.size)
    at += LENGTH.size * axes
    if data[at : at + 1] != b"b":
        raise ValueError("an array without elements")
    (size_bytes,) = LENGTH.unpack_from(data, at + 1)
    begin, count = at + 1 + LENGTH.size, math.prod(shape)
    if size_bytes != count * dtype.itemsize or begin + size_bytes > len(data):
        raise ValueError(f"{size_bytes} bytes for {name}{list(shape)}")
    little = dtype.newbyteorder("<") if dtype.kind in "iufc" else dtype
    array = np.frombuffer(data, little, count, begin) if count else np.empty(0, little)
    return array.reshape(shape), begin + size_bytes


READERS: dict[bytes, Reader] = {
    b"N": lambda data, at, depth: (None, at),
    b"T": lambda data, at, depth: (True, at),
    b"F": lambda data, at, depth: (False, at),
    b"i": lambda data, at, depth: (INTEGER.unpack_from(data, at)[0], at + INTEGER.size),
    b"f": lambda data, at, depth: (FLOAT.unpack_from(data, at)[0], at + FLOAT.size),
    b"s": _read_text,
    b"b": _read_bytes,
    b"t": _read_tuple,
    b"a": _read_array,
}
