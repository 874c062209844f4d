"""Batches of elements that differ in shape: each is filled up to the longest of its batch, or to a given shape.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simdist.data import streams
from simdist.data.batch import Batch, stack
from simdist.data.grouping import BatchRows
from simdist.data.leaves import Array, ArraySpec, Structure, Tree, as_leaf, is_text, unflatten
from simdist.data.nodes import Node, Pass, Spec
from simdist.data.streams import Pull
from simdist.data.table import Table
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import ArrayLike
from simdist.program.narrowing import narrowed

__all__ = ["PaddedBatch", "shapes_to_boundary"]

Padded = tuple[int | None, ...]  # the shape of one component after padding; None is the longest of the batch


class PaddedBatch(BatchRows):
    """Consecutive elements put together, b at a time, each filled up to one shape: elements of shape [b, ...]."""

    def __init__(self, source: Node, batch_size: int, padded_shapes: Tree, padding_values: Tree, drop_remainder: bool) -> None:
        super().__init__(source, batch_size, drop_remainder)
        self.label = f"padded_batch({batch_size})"
        self.padded_shapes, self.padding_values = padded_shapes, padding_values

    def over(self, sources: tuple[Node, ...]) -> Node:
        return PaddedBatch(sources[0], self.batch_size, self.padded_shapes, self.padding_values, self.drop_remainder)

    def batched_table(self) -> Table | None:
        return None

    def open(self, one_pass: Pass) -> Pull:
        pull = self.source.open_elements(one_pass)
        held: list[Batch] = []

        def pull_batch(limit: int) -> Array:
            items = one_pass.gathered(pull, self.batch_size, held)
            full = len(items) == self.batch_size
            return streams.as_objects([stack(self.padded(items))] if full or (items and not self.drop_remainder) else [])

        return pull_batch

    def padded(self, items: list[Batch]) -> list[Batch]:
        """The elements of one batch, all of one shape."""
        structure = items[0].structure
        shapes = wanted_shapes(self.padded_shapes, structure)
        values = padding_values(self.padding_values, structure)
        columns = [
            padded_column(column, shape, value)
            for column, shape, value in zip(zip(*(item.leaves() for item in items), strict=True), shapes, values, strict=True)
        ]
        return [Batch(None, None, leaves, structure) for leaves in zip(*columns, strict=True)]

    def spec(self) -> Spec:
        structure, leaves = self.source.spec()
        table, size = self.source.table(), self.batch_size if self.drop_remainder else None
        even = table is not None and not table.pending
        found: list[ArraySpec] = []
        for leaf, shape in zip(leaves, wanted_shapes(self.padded_shapes, structure), strict=True):
            own: Padded = leaf.shape if even else (None,) * len(leaf.shape)
            found.append(ArraySpec((size, *(own if shape is None else shape)), leaf.dtype))
        return structure, tuple(found)


def wanted_shapes(given: Tree, structure: Structure) -> list[Padded | None]:
    """One padded shape per component; None pads each axis to the longest."""
    if given is None:
        return [None] * structure.num_leaves
    shapes: list[Padded | None] = []
    for shape in per_leaf(given, structure, "padded_shapes"):
        if shape is not None and not (isinstance(shape, Sequence) and all(map(is_axis, shape))):  # pyright: ignore[reportUnknownVariableType]
            raise InvalidArgumentError(
                f"padded_shapes holds {shape!r}; expected a shape per component, such as (None,) or [5]: lengths from 0, or None"
            )
        shapes.append(None if shape is None else tuple(None if axis == -1 else axis for axis in shape))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return shapes


def shapes_to_boundary(spec: Spec, padded_shapes: Tree, boundaries: Sequence[int], bucket: int) -> Tree:
    """A shape per component whose open axes are one less than the boundary of a bucket.

    Args:
        spec: of the elements, whose open axes count where no shape is given.
        padded_shapes: as of `PaddedBatch`.
        boundaries: of the buckets, in rising order.
        bucket: its number; there is one more than boundaries.

    Raises:
        InvalidArgumentError: the last bucket, which has no boundary.
    """
    structure, leaves = spec
    if bucket == len(boundaries):
        raise InvalidArgumentError(
            f"an element is as long as the last boundary, {boundaries[-1]}, or longer, and is to be padded to a boundary; expected a "
            "shorter one; add a boundary, or leave out pad_to_bucket_boundary"
        )
    shapes = [leaf.shape if shape is None else shape for leaf, shape in zip(leaves, wanted_shapes(padded_shapes, structure), strict=True)]
    return unflatten(structure, [tuple(boundaries[bucket] - 1 if axis is None else axis for axis in shape) for shape in shapes])


def is_axis(length: object) -> bool:
    """True for a length, and for None or -1."""
    return length is None or (isinstance(length, int) and not isinstance(length, bool) and length >= -1)


def padding_values(given: Tree, structure: Structure) -> list[Tree]:
    """One padding value per component; None stands for 0, False or the empty string."""
    if given is None or not isinstance(given, (tuple, dict)):
        return [given] * structure.num_leaves
    return per_leaf(given, structure, "padding_values")


def per_leaf(given: Tree, structure: Structure, name: str) -> list[Tree]:
    """The parts of `given`, one for each component."""
    try:
        return list(structure.flatten_up_to(given))
    except (ValueError, TypeError) as error:
        blank = unflatten(structure, ["..."] * structure.num_leaves)
        raise InvalidArgumentError(f"{name} is {given!r}; expected the structure of the elements, {blank}") from error


def padded_column(column: Sequence[Array], shape: Padded | None, value: ArrayLike | None) -> list[Array]:
    """The arrays of one component, filled up at the end of each axis."""
    ranks = {leaf.ndim for leaf in column}
    if len(ranks) > 1 or (shape is not None and len(shape) not in ranks):
        raise InvalidArgumentError(
            f"a component has {sorted(ranks)} axes and padded_shapes asks for {shape}; "
            "expected one number of axes; reshape it in a map first"
        )
    longest = np.max([leaf.shape for leaf in column], axis=0).astype(int).tolist()
    goal = tuple(longest) if shape is None else tuple(have if want is None else want for have, want in zip(longest, shape, strict=True))
    if any(have > want for have, want in zip(longest, goal, strict=True)):
        raise InvalidArgumentError(f"an element of shape {longest} does not fit padded_shapes {list(goal)}; crop it in a map first")
    return [filled_up(leaf, goal, value) for leaf in column]


def filled_up(leaf: Array, goal: tuple[int, ...], value: ArrayLike | None) -> Array:
    """One array with `value` (or zero, False, the empty string) after its end."""
    if leaf.shape == goal:
        return leaf
    if value is None:
        blank = np.zeros(goal, leaf.dtype)
    elif is_text(leaf.dtype.name):
        blank = np.full(goal, value, np.result_type(leaf.dtype, np.asarray(value).dtype))
    else:
        filling = as_leaf(value, "padding_values")
        if filling.ndim or is_text(filling.dtype.name):
            raise InvalidArgumentError(f"padding_values holds {value!r} for a component of {leaf.dtype.name}; expected one number")
        blank = np.full(goal, narrowed(filling, leaf.dtype, "padding_values"))
    blank[tuple(slice(0, length) for length in leaf.shape)] = leaf
    return blank
