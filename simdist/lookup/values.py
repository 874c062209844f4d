"""The edge of lookup tables: what users give them becomes a numpy array of text or of integers, or is refused.

Bytes are decoded, and arrays of Python strings become arrays of text. Integers keep 64 bits on the way in, and get the dtype that JAX keeps
on the way out. An integer may be a value of a traced step; text cannot.

Taught in lesson 06.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from simdist.data.leaves import Array, require_whole_text
from simdist.data.row_blocks import RowBlock
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import present_value
from simdist.program.narrowing import kept_dtype, narrowed

__all__ = ["integers_of", "is_row_block", "is_traced", "kept_integers", "refuse_symbolic", "text_of"]


def is_traced(value: Any) -> bool:
    """Whether it is a value of a step that is being traced."""
    return isinstance(value, jax.core.Tracer)


def refuse_symbolic(value: Any, what: str) -> None:
    """Refuse the symbolic inputs of Keras' functional models, which have no values.

    Raises:
        TypeError: it is one.
    """
    if type(value).__name__ == "KerasTensor":
        raise TypeError(
            f"{what} was called with a symbolic input of Keras; expected values. Look up in the dataset, "
            "dataset.map(lambda features: lookup(features)), and give the model an input of integers."
        )


def text_of(value: Any, encoding: str, what: str) -> Array:
    """An array of text (numpy's ``U``) of what a user gave.

    Args:
        value: a string, bytes, or an array or nested list of them.
        encoding: of bytes.
        what: who is given the value, for messages.

    Raises:
        TypeError: something else than text.
        InvalidArgumentError: a value of a traced step, rows of different lengths, or bytes in another encoding.
    """
    refuse_symbolic(value, what)
    if is_traced(value):
        raise InvalidArgumentError(
            f"{what} looks up strings and was called in a step, with a traced {value.dtype.name}; steps compute with numbers only. "
            "Put it into the dataset's map: dataset.map(lambda features: lookup(features))."
        )
    array = _array_of(value, what)
    if array.dtype.kind in ("O", "T"):
        array = _text_of_objects(array, encoding, what)
    elif array.dtype.kind in "US" and not isinstance(value, np.ndarray):
        require_whole_text(np.asarray(value, object).ravel().tolist())
    if array.dtype.kind == "S":
        array = _decoded(array, encoding, what)
    if array.dtype.kind != "U" and array.size:
        raise TypeError(f"{what} was given {array.dtype.name}; expected strings; convert them, .astype(str), or use sd.IntegerLookup")
    return array if array.dtype.kind == "U" else array.astype("U1")


def _array_of(value: Any, what: str) -> Array:
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{what} was given rows of different lengths ({error}); ragged input is not supported; pad the rows to one length"
        ) from None


def _text_of_objects(array: Array, encoding: str, what: str) -> Array:
    found: list[str] = []
    for item in array.ravel().tolist():
        if isinstance(item, bytes):
            found.append(_decoded_bytes(item, encoding, what))
        elif isinstance(item, str):
            found.append(item)
        else:
            raise TypeError(f"{what} was given a {type(item).__name__} among strings; expected strings only; convert it with str()")
    require_whole_text(found)
    return np.array(found, dtype=str).reshape(array.shape)


def _decoded(array: Array, encoding: str, what: str) -> Array:
    return np.array([_decoded_bytes(item, encoding, what) for item in array.ravel().tolist()], dtype=str).reshape(array.shape)


def _decoded_bytes(item: bytes, encoding: str, what: str) -> str:
    try:
        return item.decode(encoding)
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{what} was given bytes that are no {encoding}: {error}; pass encoding= with theirs") from None


def integers_of(value: Any, what: str) -> Any:
    """An int64 array of numpy of what a user gave; a value of a traced step stays one.

    Raises:
        TypeError: something else than integers.
        InvalidArgumentError: rows of different lengths, or integers of more than 64 bits.
    """
    refuse_symbolic(value, what)
    value = value if isinstance(value, (np.ndarray, list, tuple)) else present_value(value)
    if is_traced(value):
        wanted = kept_dtype("int64")
        if not jnp.can_cast(kept_dtype(value.dtype), wanted) or jnp.issubdtype(value.dtype, jnp.inexact):
            raise TypeError(
                f"{what} was given {value.dtype.name} in a step; expected integers of {wanted.name}; convert them with .astype('int32')"
            )
        return value.astype(wanted)
    array = _array_of(value, what)
    if array.dtype.kind == "O" or (array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max):
        raise InvalidArgumentError(
            f"{what} was given {value!r:.80}; expected integers of at most 64 bits with a sign; hash larger ones first"
        )
    if array.dtype.kind not in "iub" and array.size:
        instead = "use sd.StringLookup" if array.dtype.kind in "US" else "round them and convert them with .astype('int64') first"
        raise TypeError(f"{what} was given {array.dtype.name}; expected integers; {instead}")
    return array.astype(np.int64)


def kept_integers(values: Array | jax.Array, what: str) -> Array:
    """Integers in the dtype that JAX keeps: int32, unless x64 is on.

    Raises:
        InvalidArgumentError: one of them does not fit.
    """
    if is_traced(values):
        return values.astype(kept_dtype("int64"))  # pyright: ignore[reportReturnType]
    return narrowed(np.asarray(values), kept_dtype("int64"), what)


def is_row_block(value: Any) -> bool:
    """Whether it stands for the values of many rows, in a map that is tried on whole columns."""
    return type(value) is RowBlock
