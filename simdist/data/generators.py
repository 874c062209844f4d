"""Generators with a signature: what their elements look like is said beforehand, and each element is checked.

Invariant: an element that does not fit is refused; a number never becomes another one.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from simdist.arguments import name_of_function
from simdist.data.batch import Batch
from simdist.data.leaves import Array, ArraySpec, Element, Structure, Tree, dtype_of, flatten, is_text, tree_flatten
from simdist.data.nodes import Node, Spec
from simdist.data.sources import FromIterable
from simdist.errors import InvalidArgumentError
from simdist.program.narrowing import kept_dtype

__all__ = ["FromGenerator", "signature_of"]

Signature = tuple[Structure, tuple[ArraySpec, ...]]


class FromGenerator(FromIterable):
    """What a generator function gives, each element as its signature says.

    Args:
        generator: returns an iterable of elements.
        args: of the generator function.
        signature: structure, shapes and dtypes of the elements.
    """

    def __init__(self, generator: Callable[..., Iterable[Element]], args: Sequence[Element], signature: Signature) -> None:
        super().__init__(partial(generator, *args))
        self.label = "Dataset.from_generator()"
        self.name = name_of_function(generator, "the generator")
        self.signature = signature

    @property
    def knows_spec(self) -> bool:
        return True

    def over(self, sources: tuple[Node, ...]) -> Node:
        return self

    def element(self, value: Element) -> Batch:
        structure, specs = self.signature
        if isinstance(value, list) and structure.num_leaves != 1:
            value = tuple(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        leaves, found = flatten(value, f"an element of {self.name!r}")
        if found != structure:
            raise InvalidArgumentError(f"{self.name!r} gave an element of the structure {found}; its signature says {structure}")
        return Batch(None, None, tuple(self.fitted(leaf, spec) for leaf, spec in zip(leaves, specs, strict=True)), structure)

    def fitted(self, leaf: Array, spec: ArraySpec) -> Array:
        """A leaf with the dtype that the signature says.

        Raises:
            InvalidArgumentError: it has another shape, or its numbers are none of this dtype.
        """
        fits = len(leaf.shape) == len(spec.shape) and all(want in (None, have) for have, want in zip(leaf.shape, spec.shape, strict=True))
        found = converted(leaf, spec.dtype) if fits else None
        if found is None:
            raise InvalidArgumentError(
                f"{self.name!r} gave {leaf.dtype.name}{list(leaf.shape)}; its signature says {spec.dtype}{list(spec.shape)}; change the "
                "signature, or what it gives"
            )
        return found

    def spec(self) -> Spec:
        return self.signature


def converted(leaf: Array, dtype_name: str) -> Array | None:
    """The same numbers, or texts, with another dtype; None where they would be others."""
    if is_text(dtype_name) or is_text(leaf.dtype.name):
        return leaf if leaf.dtype.kind == dtype_of(dtype_name).kind else None
    dtype = np.dtype(dtype_name)
    with np.errstate(all="ignore"):
        found = leaf.astype(dtype)
    is_rounded = leaf.dtype.kind in "fc" and np.can_cast(leaf.dtype, dtype, "same_kind")
    if not (np.array_equal(np.isfinite(found), np.isfinite(leaf)) if is_rounded else np.array_equal(found, leaf)):
        return None
    found.flags.writeable = False
    return found


def signature_of(given: Tree) -> Signature:
    """The signature that a user has written: nested specs, each with a shape and a dtype.

    Raises:
        InvalidArgumentError: something in it has no shape, or no dtype that can be computed with, and is no text.

    Example:
        >>> signature_of((ArraySpec((None, 2), "float32"), ArraySpec((), "int64")))[1]
        (ArraySpec(shape=(None, 2), dtype='float32'), ArraySpec(shape=(), dtype='int32'))
    """
    leaves, structure = tree_flatten(given)
    return structure, tuple(map(_spec_of, leaves))


def _spec_of(given: object) -> ArraySpec:
    try:
        shape, dtype = given.shape, given.dtype  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]
        sizes = tuple(None if size is None else int(size) for size in shape)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        # A class, such as np.float32, has no name of its own that is one of a dtype.
        name: str = str(getattr(np.dtype(dtype) if isinstance(dtype, type) else dtype, "name", dtype))  # pyright: ignore[reportUnknownArgumentType]
        kind = "str" if name == "string" else name if is_text(name) else kept_dtype(np.dtype(name)).name
        return ArraySpec(sizes, kind)
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"output_signature holds {given!r}; expected specs with a known rank, such as sd.ArraySpec((None, 10), 'float32')"
        ) from error
