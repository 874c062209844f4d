"""Elements with equal keys put together: as soon as a group has its size, a function makes a dataset of it.

Taught in lesson 08.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import SupportsInt

import numpy as np

from simdist.arguments import listed, name_of_function, whole_number
from simdist.data import streams
from simdist.data.batch import Batch
from simdist.data.leaves import Array, Element, ElementFunction, Scalar, flatten
from simdist.data.nested import PROBED, Members, inner_dataset, spec_of_members
from simdist.data.nodes import UNKNOWN, Node, Pass, Spec, Transform
from simdist.data.pipeline import Pipeline
from simdist.data.purity import call_on
from simdist.data.reach import reached
from simdist.data.sources import blank_element, probed_elements
from simdist.data.streams import Pull
from simdist.data.windows import Held
from simdist.errors import InvalidArgumentError

__all__ = ["Buckets", "GroupByWindow"]

NAME = "group_by_window"


class GroupByWindow(Transform):
    """The elements of the datasets that a function makes of groups of elements with one key.

    Args:
        source: the step before it.
        key_func: from an element to an integer.
        reduce_func: from a key and a dataset of its elements to a dataset.
        size_of: how many elements with a key make a group.
        make: from a node to a dataset.
    """

    def __init__(
        self,
        source: Node,
        key_func: ElementFunction,
        reduce_func: ElementFunction,
        size_of: Callable[[Scalar], int],
        make: Callable[[Node], Pipeline],
    ) -> None:
        for fn in (key_func, reduce_func, size_of):
            if not callable(fn):
                raise TypeError(f"{NAME} was given {fn!r}; expected functions of an element, of a key and a dataset, and of a key")
        super().__init__(source, f"{NAME}()")
        self.key_func, self.reduce_func, self.size_of, self.make = key_func, reduce_func, size_of, make

    @property
    def knows_spec(self) -> bool:
        return False

    def over(self, sources: tuple[Node, ...]) -> Node:
        return GroupByWindow(sources[0], self.key_func, self.reduce_func, self.size_of, self.make)

    def open(self, one_pass: Pass) -> Pull:
        elements = self.source.open_elements(one_pass)
        for fn in (self.key_func, self.reduce_func, self.size_of):
            one_pass.will_call(fn)
        members, groups = Members(NAME, self.reduce_func), dict[int, _Group]()
        member: Pull | None = None
        left: list[_Group] | None = None  # where the elements have ended: the groups that are not full, the smallest key last

        def pull(limit: int) -> Array:
            nonlocal member, left
            while True:
                if member is not None and len(chunk := member(limit)):
                    return chunk
                member = None
                group = self.filled_group(elements, groups) if left is None else None
                if group is None:
                    if left is None:
                        left = [groups.pop(key) for key in sorted(groups, reverse=True)]
                    if not left:
                        return streams.NOTHING
                    group = left.pop()
                member = members.opened(self.made_of(group), one_pass)

        return pull

    def filled_group(self, elements: Pull, groups: dict[int, _Group]) -> _Group | None:
        """The next group that has all its elements; None where the elements end before."""
        while len(chunk := elements(1)):
            key = self.key_of(chunk[0])
            group = groups.get(int(key))
            if group is None:
                group = groups[int(key)] = _Group(key, whole_number(self.size_of(key), "the size of a window", 1))
            group.elements.append(chunk[0])
            if len(group.elements) == group.size:
                return groups.pop(int(key))
        return None

    def key_of(self, batch: Batch) -> Scalar:
        """The key of an element.

        Raises:
            InvalidArgumentError: the function did not return one integer.
        """
        leaves, _ = flatten(call_on(self.key_func, batch.structure, batch.arguments()), "the result of the key function")
        if len(leaves) != 1 or leaves[0].shape != () or leaves[0].dtype.kind not in "biu":
            raise InvalidArgumentError(
                f"the key function of {NAME} must return one integer; {name_of_function(self.key_func, 'the function')!r} returned "
                f"{[f'{leaf.dtype.name}{list(leaf.shape)}' for leaf in leaves]}"
            )
        return leaves[0].dtype.type(leaves[0])

    def made_of(self, group: _Group) -> Element:
        """What the function makes of a group."""
        return self.reduce_func(group.key, self.make(Held(streams.as_objects(group.elements), None, self.source.spec)))

    def cardinality(self) -> int:
        return 0 if self.source.cardinality() == 0 else UNKNOWN

    def spec(self) -> Spec:
        elements = probed_elements(self.source, PROBED if self.source.free else 1) or [blank_element(self.source)]
        reaches = [reached(fn) for fn in (self.key_func, self.reduce_func)]
        try:
            groups = [_Group(self.key_of(element), 1, [element]) for element in elements]
            return spec_of_members((inner_dataset(self.made_of(group), NAME, self.reduce_func) for group in groups), self)
        finally:
            for reach in reversed(reaches):
                reach.put_back()


class _Group:
    """The elements with one key that wait for more."""

    def __init__(self, key: Scalar, size: int, elements: list[Batch] | None = None) -> None:
        self.key, self.size = key, size
        self.elements = elements or []


class Buckets:
    """Ranges of lengths, each with a number of rows for its batches.

    Args:
        boundaries: lengths at which the next bucket begins, in rising order.
        batch_sizes: one more than boundaries.

    Raises:
        InvalidArgumentError: boundaries that do not rise, another number of sizes, or something below 1.

    Example:
        >>> buckets = Buckets([3, 5], [8, 4, 2])
        >>> [int(buckets.number_of(length)) for length in (2, 3, 9)]
        [0, 1, 2]
    """

    def __init__(self, boundaries: Sequence[int], batch_sizes: Sequence[int]) -> None:
        self.boundaries = [whole_number(edge, "a bucket boundary", 1) for edge in listed(boundaries, "bucket_boundaries", "lengths")]
        self.batch_sizes = [whole_number(size, "a bucket's batch size", 1) for size in listed(batch_sizes, "bucket_batch_sizes", "numbers")]
        if len(self.batch_sizes) != len(self.boundaries) + 1 or any(low >= high for low, high in pairwise(self.boundaries)):
            raise InvalidArgumentError(
                f"bucket_by_sequence_length was given the boundaries {self.boundaries} and {len(self.batch_sizes)} batch sizes; expected "
                "rising boundaries, and one size more than boundaries"
            )

    def number_of(self, length: SupportsInt) -> np.int32:
        """The number of the bucket of a length."""
        return np.int32(bisect_right(self.boundaries, int(length)))
