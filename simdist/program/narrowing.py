"""Narrowing: dtypes at the edge become those that JAX keeps, and a value that does not fit is refused.

Unless x64 is on, 64-bit numbers become 32-bit ones, silently where they fit: an id, a count, a mean. A number that would become
another one is an error, because it would be hard to find later: hashed ids that collide, a loss that is infinite.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from simdist.arguments import shown
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import ArrayLike, DType, DTypeLike, HostArray, jax_array, native, present_value, supports_jax_array
from simdist.program.values import snapshot

__all__ = [
    "WIDER_THAN_JAX",
    "canonical",
    "kept_dtype",
    "narrowed",
    "numbers_for_jax",
    "require_known",
    "require_numbers",
    "require_unmasked",
]

NO_NUMBERS = ("str", "bytes", "object", "datetime64", "timedelta64", "void", "record")
WIDER_THAN_JAX = ("float96", "float128", "complex192", "complex256")  # numpy.longdouble and its relative, as machines call them


def kept_dtype(dtype: DTypeLike) -> DType:
    """The dtype that JAX has for this one: its 32-bit relative, unless x64 is on, and in the byte order of this machine.

    Example:
        >>> kept_dtype("int64").name, kept_dtype(">f4").isnative
        ('int32', True)
    """
    kept = np.dtype(jax.dtypes.canonicalize_dtype(dtype))
    return kept if kept.isnative else kept_dtype(kept.newbyteorder("="))


def require_numbers(dtype_name: str, what: str) -> None:
    """Refuse what a step cannot be given or give: text, dates, Python objects, typed random keys, numbers of more than 64 bits.

    Raises:
        InvalidArgumentError: the dtype is none of numbers or booleans that JAX has.

    Example:
        >>> require_numbers("float32", "a batch")
    """
    if dtype_name.startswith(NO_NUMBERS):
        text = "strings" if dtype_name.startswith(("str", "bytes")) else dtype_name
        raise InvalidArgumentError(
            f"{what} holds {text}, and a step computes with numbers. Make numbers of them first, dataset.map(lambda ...: lookup(...)), "
            "or keep them out of it: dataset.map(lambda ...: ...) may leave the component away."
        )
    if dtype_name in WIDER_THAN_JAX:
        raise InvalidArgumentError(
            f"{what} has dtype {dtype_name}, and JAX has no numbers as wide. Make narrower ones of them first, "
            f"array.astype({'complex128' if dtype_name.startswith('complex') else 'float64'!r})."
        )
    if dtype_name.startswith("key<"):
        raise InvalidArgumentError(
            f"{what} holds a typed random key, and a step is given, gives and keeps arrays of numbers. Give it "
            "jax.random.key_data(key), and call jax.random.wrap_key_data(data) in it; or use jax.random.PRNGKey."
        )


def require_unmasked(value: object, what: str) -> None:
    """Refuse an array of numpy with a mask, as JAX does: the numbers below the mask would count.

    Raises:
        InvalidArgumentError: it is one.

    Example:
        >>> require_unmasked(np.ones(2), "a batch")
    """
    if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
        raise InvalidArgumentError(
            f"{what} has a mask (numpy.ma), which would be lost: the numbers below it would count. Give value.filled(0), and "
            "~numpy.ma.getmaskarray(value) as weights or as another component."
        )


def require_known(value: jax.Array, what: str) -> None:
    """Refuse a value that is no number yet.

    Raises:
        InvalidArgumentError: it belongs to a function that JAX is tracing.
    """
    if isinstance(value, jax.core.Tracer):
        raise InvalidArgumentError(
            f"{what} was about to get a value of a jax.jit, grad, scan or vmap, which is no number before that function ends. Return the "
            "value from the function, and assign it then; or make the function a step, with @sd.function."
        )


def numbers_for_jax(value: Any, what: str) -> Any:
    """An array, or what can be made one, in a form that JAX takes: lists as arrays, in the byte order of this machine.

    Args:
        value: of the user; values of a step and variables stay as they are, and so do numbers of Python, which have no dtype.
        what: who has it, as the beginning of a sentence.

    Raises:
        InvalidArgumentError: it is no array of numbers, as JAX's own errors would not say whose it is; or it has a mask, which JAX drops.

    Example:
        >>> numbers_for_jax([1, 2], "The gradient"), numbers_for_jax(1.5, "The gradient")
        (array([1, 2]), 1.5)
    """
    if isinstance(value, jax.Array) or supports_jax_array(value):
        return value
    require_unmasked(value, what)
    if type(value) in (int, float, bool, complex):
        canonical(value, what)
        return value
    if any(isinstance(leaf, jax.Array) or supports_jax_array(leaf) for leaf in jax.tree_util.tree_leaves(value)):
        return value
    try:
        array = native(np.asarray(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"{what} was given {shown(value)}, which is no array ({error}). Give rows of equal length.") from None
    if array.dtype.name.startswith(NO_NUMBERS + WIDER_THAN_JAX):
        raise InvalidArgumentError(f"{what} was given {shown(value)}. Give numbers of at most 64 bits, or booleans.")
    return array


def canonical(value: ArrayLike, what: str, dtype: DTypeLike | None = None) -> jax.Array:
    """A JAX array with a dtype that JAX keeps, of numbers that its owner cannot change any more.

    Args:
        value: an array, a number, a variable, or a value of a step.
        what: who has it, as the beginning of a sentence.
        dtype: to have; None: that of the value.

    Raises:
        InvalidArgumentError: no numbers, or numbers that the dtype cannot hold.
    """
    value = snapshot(present_value(value))
    require_unmasked(value, what)
    if any(isinstance(leaf, jax.core.Tracer) or supports_jax_array(leaf) for leaf in jax.tree_util.tree_leaves(value)):
        value = jnp.asarray(value)
    if isinstance(value, jax.core.Tracer):
        return _in_a_step(value, what, kept_dtype(dtype or value.dtype))
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidArgumentError(f"{what} was given a value that is no array ({error}). Give rows of equal length.") from None
    if array.dtype.name.startswith(NO_NUMBERS + WIDER_THAN_JAX):
        raise InvalidArgumentError(f"{what} was given values of dtype {array.dtype.name}. Give numbers of at most 64 bits, or booleans.")
    wanted = kept_dtype(array.dtype if dtype is None else dtype)
    if isinstance(value, jax.Array) and value.dtype == wanted:
        return value
    return jax_array(narrowed(array, wanted, what))


def _in_a_step(value: jax.Array, what: str, dtype: DType) -> jax.Array:
    if jnp.issubdtype(value.dtype, jnp.inexact) and not jnp.issubdtype(dtype, jnp.inexact):
        raise InvalidArgumentError(
            f"{what} is {dtype.name} and was given {value.dtype.name}, whose digits would be cut off. Round in the step and say so, "
            f"jnp.round(x).astype({str(dtype.name)!r}), or use a floating dtype."
        )
    if jnp.issubdtype(value.dtype, jnp.complexfloating) and not jnp.issubdtype(dtype, jnp.complexfloating):
        raise InvalidArgumentError(
            f"{what} is {dtype.name} and was given {value.dtype.name}, whose imaginary part would be dropped. Say so in the step, "
            "jnp.real(x), or use a complex dtype."
        )
    return value.astype(dtype)


def narrowed(array: HostArray, dtype: DTypeLike, what: str) -> HostArray:
    """The array in another dtype, where that keeps its numbers; what floats lose in digits is no matter.

    Args:
        array: numbers or booleans.
        dtype: to have.
        what: who has the numbers, as the beginning of a sentence.

    Raises:
        InvalidArgumentError: a whole number is out of range, a float is not whole or infinite where it must not be.

    Example:
        >>> narrowed(np.array([1.0, 2.0]), "int32", "v")
        array([1, 2], dtype=int32)
    """
    dtype = np.dtype(dtype)
    if array.dtype == dtype or not array.size:
        return array.astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.real(array).astype(dtype) if _drops_imaginary(array, dtype) else array.astype(dtype)
    lost = _lost(array, found)
    if lost is not None:
        raise InvalidArgumentError(f"{what} has {_shown(array[lost])}, which {_reason(array.dtype, dtype)}")
    return found


def _drops_imaginary(array: HostArray, dtype: DType) -> bool:
    return array.dtype.kind == "c" and dtype.kind != "c"


def _lost(array: HostArray, found: HostArray) -> tuple[int, ...] | None:
    """The position of the first number that would change, or None."""
    if array.dtype.kind in "iub" and found.dtype.kind in "iu":
        limits = np.iinfo(found.dtype)
        # Two looks at the whole are faster than a comparison of each; most arrays fit.
        if int(array.min()) >= limits.min and int(array.max()) <= limits.max:
            return None
        wrong = (array < limits.min) | (array > limits.max)
    elif jnp.issubdtype(found.dtype, jnp.inexact):
        wrong = ~np.isfinite(found)
        if not wrong.any() and not _drops_imaginary(array, found.dtype):
            return None
        wrong &= np.isfinite(array)
        if _drops_imaginary(array, found.dtype):
            wrong |= np.imag(array) != 0
    else:
        wrong = found.astype(array.dtype) != array
    return tuple(np.argwhere(wrong)[0]) if wrong.any() else None


def _shown(value: np.generic) -> str:
    return repr(value.item())


def _reason(given: DType, dtype: DType) -> str:
    if jnp.issubdtype(given, jnp.inexact) and dtype.kind in "iub":
        return f"no {dtype.name} can hold. Round it first, or use a floating dtype."
    if given.itemsize == 8 and kept_dtype(given) == dtype:
        return (
            f"does not fit {dtype.name}, which {given.name} becomes unless x64 is on. Switch it on before anything else, "
            'jax.config.update("jax_enable_x64", True), or make the numbers smaller (hash ids into fewer buckets).'
        )
    return f"does not fit {dtype.name}. Give numbers that do, or another dtype."
