"""The edge of the input pipeline: any nested value in, numpy leaves and their structure out.

As in tf.data, tuples, dicts and registered classes are structure, and a list is an array written down by hand.
Dtypes are settled here, once: 64-bit numbers become 32-bit ones unless JAX runs in 64-bit mode, because that is
what every computation behind the pipeline would do anyway, with a warning each time. Strings and booleans stay.

Invariant: what leaves this file is a numpy array that nobody can change any more. Numbers are computed late, so an
element must not move under the computation that still has to read it.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from simdist.arguments import require_shallow
from simdist.data.aligned import aligned_copy
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import ArrayLike
from simdist.program.narrowing import kept_dtype, narrowed, require_numbers, require_unmasked

__all__ = [
    "Array",
    "ArraySpec",
    "Element",
    "ElementFunction",
    "Leaves",
    "Scalar",
    "Structure",
    "Tree",
    "as_leaf",
    "common_spec",
    "dtype_of",
    "flatten",
    "frozen",
    "has_shape",
    "is_text",
    "require_whole_text",
    "spec_of",
    "structure_of",
    "tree_flatten",
    "unflatten",
]

Array = np.ndarray[Any, Any]
Leaves = tuple[Array, ...]  # one array per leaf of an element, in the order of its structure

Scalar = np.generic  # a leaf without axes, as a function of the user sees it
Tree = Any
"""Nested tuples, dicts and classes that JAX knows, of whatever leaves: arrays, specs, shapes. No type can say that of a user's class."""
Element = Tree  # of arrays, numbers or strings: what a user puts into a pipeline, and gets out of it
ElementFunction = Callable[..., Element]  # of a user: called with an element, or with its parts where that is a plain tuple

KEPT_KINDS = "biufcUS"
MOST_BITS = 64


@runtime_checkable
class _Shaped(Protocol):
    @property
    def shape(self) -> object: ...


class Structure(Hashable, Protocol):
    """How the leaves of an element are nested: what the pipeline uses of JAX's tree definition."""

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        ...

    def flatten_up_to(self, xs: Tree) -> Sequence[Tree]:
        """What a nested value has in place of each leaf.

        Raises:
            ValueError, TypeError: it is nested otherwise.
        """
        ...


@dataclass(frozen=True)
class ArraySpec:
    """Shape and dtype of one leaf of an element; None stands for a dimension that varies.

    Example:
        >>> ArraySpec((None, 10), "float32")
        ArraySpec(shape=(None, 10), dtype='float32')
    """

    shape: tuple[int | None, ...]
    dtype: str


def as_leaf(value: ArrayLike, what: str = "a component") -> Array:
    """One leaf as a numpy array of a dtype that the pipeline carries.

    Args:
        value: an array of any library, a number, a string, or a list of these.
        what: who gave the value, for the message of an error.

    Returns:
        An array that may share memory with `value`; 64-bit numbers are narrowed unless ``jax_enable_x64`` is on.

    Raises:
        InvalidArgumentError: a ragged list, objects that are neither numbers nor strings, or both in one list, numbers too large for their
            narrow dtype, or text that ends in a zero.

    Example:
        >>> as_leaf([1, 2]).dtype.name, as_leaf(0.5).dtype.name, as_leaf([True]).dtype.name
        ('int32', 'float32', 'bool')
    """
    require_unmasked(value, what)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidArgumentError(
            f"a list could not become one array ({error}); expected rows of equal shape; "
            "write a tuple where the parts are separate components"
        ) from error
    if array.dtype.kind == "O":
        array = text_of_objects(array)
    elif array.dtype.kind in "US" and not isinstance(value, np.ndarray):
        flat: list[object] = np.asarray(value, object).ravel().tolist()
        require_one_kind(flat)  # numpy writes the numbers of such a list as text
        require_whole_text(flat)
    if array.dtype.kind not in KEPT_KINDS and not is_small_float(array.dtype):
        raise InvalidArgumentError(f"a component has dtype {array.dtype.name}; expected numbers, booleans or strings; convert it first")
    # Only 64-bit numbers are narrowed; foreign and text dtypes are nothing that JAX would look at here.
    if array.dtype.kind not in "iufc" or kept_dtype(array.dtype) == array.dtype:
        if array.dtype.itemsize > MOST_BITS // 8 and array.dtype.kind in "fc":
            require_numbers(array.dtype.name, what)
        return array
    return narrowed(array, kept_dtype(array.dtype), what)


def is_small_float(dtype: np.dtype[Any]) -> bool:
    """True for bfloat16 and the 8-bit floats, which numpy knows only as foreign bytes."""
    return dtype.kind == "V" and dtype.names is None and "float" in dtype.name


def text_of_objects(array: Array) -> Array:
    """An object array of strings as a numpy text array; anything else is refused."""
    flat: list[object] = array.ravel().tolist()
    for kind in (str, bytes):
        if all(isinstance(item, kind) for item in flat):
            require_whole_text(flat)
            return array.astype(kind)
    if all(isinstance(item, (str, bytes, bool, int, float, complex, np.generic)) for item in flat):
        require_one_kind(flat)
    bits = max([item.bit_length() for item in flat if isinstance(item, int)], default=0)
    if bits > MOST_BITS:
        raise InvalidArgumentError(f"a component holds a number of {bits} bits; expected at most {MOST_BITS}; hash such numbers first")
    odd = next(item for item in flat if not isinstance(item, str))
    if all(isinstance(item, (bool, int, float, complex, np.number, np.bool_)) for item in flat):
        raise InvalidArgumentError(
            f"a component is an array of Python objects (dtype object) that are numbers, among them a {type(odd).__name__}; expected one "
            'dtype; convert it, array.astype("float32")'
        )
    raise InvalidArgumentError(
        f"a component holds Python objects, among them a {type(odd).__name__}; expected numbers, booleans or strings; "
        "convert it to an array, or return a tuple or dict of arrays"
    )


def require_one_kind(items: Sequence[object]) -> None:
    """Refuse text among numbers or bytes: it would be an array of text, in which numbers are written out.

    Raises:
        InvalidArgumentError: there are several kinds, one of which is text.
    """
    text = next((item for item in items if isinstance(item, (str, bytes))), None)
    kind = str if isinstance(text, str) else bytes
    odd = next((item for item in items if not isinstance(item, kind)), None)
    if text is not None and odd is not None:
        raise InvalidArgumentError(
            f"a component holds text, {text!r}, and {odd!r} of type {type(odd).__name__}; expected one kind; convert all of them to text, "
            "or give two components"
        )


def require_whole_text(items: Sequence[object]) -> None:
    """Refuse text that ends in a zero, which arrays of text drop.

    Raises:
        InvalidArgumentError: some text does.
    """
    odd = next((item for item in items if isinstance(item, (str, bytes)) and item[-1:] in ("\0", b"\0")), None)
    if odd is not None:
        raise InvalidArgumentError(
            f"a component holds text that ends in a zero, {odd[-20:]!r}, and arrays of text cannot keep it; expected text without; "
            "give bytes that are no text as numbers, np.frombuffer(data, np.uint8)"
        )


def frozen(array: Array) -> Array:
    """The same contents in memory that nobody can write to: a copy, unless it is so already."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return aligned_copy(array)
        owner = owner.base
    return array


def is_list(value: object) -> bool:
    return isinstance(value, list)


def tree_flatten(value: Tree) -> tuple[list[Tree], Structure]:
    """The leaves of a nested value as they are, a list being one leaf, and its structure.

    Raises:
        InvalidArgumentError: it is nested too deeply.
    """
    require_shallow(value, "the components of a dataset", (tuple, dict))
    return jax.tree_util.tree_flatten(value, is_leaf=is_list)


def structure_of(value: Tree) -> Structure:
    """The structure of a nested value."""
    return tree_flatten(value)[1]


def flatten(value: Element, what: str) -> tuple[Leaves, Structure]:
    """The leaves of a nested value, settled and frozen, and its structure.

    Args:
        value: a nested structure of tuples, dicts and arrays; a list counts as an array.
        what: who gave the value, for the message of an error.

    Raises:
        InvalidArgumentError: there is no leaf at all, or a leaf cannot become an array.
    """
    leaves, structure = tree_flatten(value)
    if not leaves:
        raise InvalidArgumentError(f"{what} has no components (it is {value!r}); expected at least one array; is a `return` missing?")
    return tuple(frozen(as_leaf(leaf, what)) for leaf in leaves), structure


def unflatten(structure: Structure, leaves: Sequence[Tree]) -> Tree:
    """The nested value with these leaves."""
    return jax.tree_util.tree_unflatten(structure, leaves)


def is_text(dtype_name: str) -> bool:
    """True for the dtypes of strings, which only host-side maps can use."""
    return dtype_name.startswith(("str", "bytes"))


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype that a spec names.

    Example:
        >>> dtype_of("float32"), dtype_of("str64"), dtype_of("bytes24")
        (dtype('float32'), dtype('<U2'), dtype('S3'))
    """
    if not is_text(name):
        return np.dtype(name)
    kind, bits_of_letter = ("U", 32) if name.startswith("str") else ("S", 8)
    letters = int(name.lstrip("strbye") or 0) // bits_of_letter
    return np.dtype(f"{kind}{max(letters, 1)}")


def spec_of(leaf: Array) -> ArraySpec:
    """Shape and dtype of one concrete array."""
    return ArraySpec(leaf.shape, leaf.dtype.name)


def common_spec(specs: Sequence[ArraySpec]) -> ArraySpec:
    """What holds for all of these specs: None where their shapes differ; those of another rank or dtype than the first are left out.

    Example:
        >>> common_spec([ArraySpec((2, 3), "int32"), ArraySpec((4, 3), "int32")])
        ArraySpec(shape=(None, 3), dtype='int32')
    """
    alike = [spec.shape for spec in specs if len(spec.shape) == len(specs[0].shape)]
    axes = (set(axis) for axis in zip(*alike, strict=True))
    return ArraySpec(tuple(sizes.pop() if len(sizes) == 1 else None for sizes in axes), specs[0].dtype)


def has_shape(value: object) -> bool:
    """True for an array of any library, which is one leaf."""
    return isinstance(value, _Shaped)
