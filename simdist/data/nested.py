"""Datasets inside of a dataset: a function of the user makes one of each element, and their elements are put one behind the other.

``flat_map`` gives all elements of one inner dataset, then those of the next. ``interleave`` has several of them open, and takes some
elements of each in turn. What an inner dataset gives stays rows of its table.

Invariants: the function is called when the first element of its dataset is needed, and for no element that nobody asks for; an inner
dataset gives the same order in every pass, in every process.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from simdist.arguments import name_of_function, whole_number
from simdist.data import streams
from simdist.data.batch import Batch
from simdist.data.caching import cached_shuffles_of, shuffles_of
from simdist.data.joining import kind_of, spec_of_element
from simdist.data.leaves import Array, Element, ElementFunction, common_spec
from simdist.data.nodes import UNKNOWN, Node, Pass, Spec, Transform
from simdist.data.pipeline import Pipeline
from simdist.data.purity import call_on
from simdist.data.reach import reached
from simdist.data.sources import NoElementsError, blank_element, probed_elements
from simdist.data.streams import Pull
from simdist.errors import InvalidArgumentError

__all__ = ["CYCLE_LENGTH", "Interleave", "Members", "inner_dataset", "interleaved"]

MOST_AT_ONCE = 1 << 20  # datasets that are open, each with a place of its own
CYCLE_LENGTH = 16  # inner datasets that are open at once where the number is left to the engine
PROBED = 4  # elements whose datasets show what elements are like


class Interleave(Transform):
    """The elements of the datasets that a function makes of elements: some of each in turn.

    Args:
        source: the step before it.
        fn: from an element to a dataset.
        cycle_length: datasets that are open at once; 1 is ``flat_map``.
        block_length: consecutive elements of one of them.
        name: of the method.
    """

    def __init__(self, source: Node, fn: ElementFunction, cycle_length: int, block_length: int, name: str) -> None:
        if not callable(fn):
            raise TypeError(f"{name} was given {fn!r}; expected a function from an element to a dataset")
        super().__init__(source, f"{name}()")
        self.fn, self.name = fn, name
        self.cycle_length = whole_number(cycle_length, "cycle_length", 1)
        self.block_length = whole_number(block_length, "block_length", 1)

    @property
    def knows_spec(self) -> bool:
        return False

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Interleave(sources[0], self.fn, self.cycle_length, self.block_length, self.name)

    def open(self, one_pass: Pass) -> Pull:
        elements = self.source.open_elements(one_pass)
        one_pass.will_call(self.fn)
        members = Members(self.name, self.fn)

        def next_member() -> Pull | None:
            chunk = elements(1)
            return members.opened(self.made_of(chunk[0]), one_pass) if len(chunk) else None

        return interleaved(next_member, self.cycle_length, self.block_length)

    def made_of(self, batch: Batch) -> Element:
        """What the function makes of an element."""
        return call_on(self.fn, batch.structure, batch.arguments())

    def cardinality(self) -> int:
        return 0 if self.source.cardinality() == 0 else UNKNOWN

    def spec(self) -> Spec:
        elements = probed_elements(self.source, PROBED if self.source.free else 1) or [blank_element(self.source)]
        reach = reached(self.fn)
        try:
            return spec_of_members((inner_dataset(self.made_of(element), self.name, self.fn) for element in elements), self)
        finally:
            reach.put_back()


def spec_of_members(members: Iterable[Node], node: Node) -> Spec:
    """What the elements of some inner datasets are like; those without elements say nothing.

    Raises:
        NoElementsError: none of them has elements.
    """
    specs: list[Spec] = []
    for member in members:
        try:
            specs.append(member.spec())
        except NoElementsError:
            continue
    if not specs:
        raise NoElementsError(f"{node.describe()} has no elements, so their shapes are unknown; expected at least one element")
    structure = specs[0][0]
    same = [leaves for found, leaves in specs if found == structure]  # the others are refused when their turn comes
    return structure, tuple(map(common_spec, zip(*same, strict=True)))


def interleaved(next_member: Callable[[], Pull | None], cycle_length: int, block_length: int) -> Pull:
    """Up to `block_length` elements of each of `cycle_length` streams in turn; the place of one that ends gets the next stream."""
    members: list[Pull | None] = [None] * cycle_length
    at, given, num_open, ended = 0, 0, 0, False

    def pull(limit: int) -> Array:
        nonlocal at, given, num_open, ended
        num_opened = 0
        while num_open or not ended:
            member = members[at]
            if member is None and not ended:
                member = members[at] = next_member()
                given, ended = 0, member is None
                num_open += not ended
                num_opened += 1
                if num_opened > streams.FUTILE_ROWS + cycle_length:
                    raise streams.FutileError(
                        f"{streams.FUTILE_ROWS:,} datasets one after another had no elements, and none may ever have one; put a filter "
                        "before repeat()"
                    )
                continue
            chunk = member(min(limit, block_length - given)) if member is not None else streams.NOTHING
            if member is not None and not len(chunk):
                members[at] = None
                num_open -= 1
            given += len(chunk)
            if not len(chunk) or given == block_length:
                at, given = (at + 1) % cycle_length, 0
            if len(chunk):
                return chunk
        return streams.NOTHING

    return pull


class Members:
    """The inner datasets of one pass, whose elements all look alike.

    Args:
        name: of the method.
        fn: the function that makes them.
    """

    def __init__(self, name: str, fn: ElementFunction) -> None:
        self.name, self.fn = name, fn
        self.first: Spec | None = None

    def opened(self, returned: Element, one_pass: Pass) -> Pull:
        """The elements of what the function has made.

        Raises:
            TypeError: it is no dataset.
            InvalidArgumentError: its elements have another structure or dtype than those before, when they are met; it shuffles without
                a seed.
        """
        pull = inner_dataset(returned, self.name, self.fn).open_elements(one_pass)
        is_checked = False

        def checked(limit: int) -> Array:
            nonlocal is_checked
            chunk = pull(limit)
            if not is_checked and len(chunk):
                self.check(spec_of_element(chunk[0]))
                is_checked = True
            return chunk

        return checked

    def check(self, found: Spec) -> None:
        first = self.first = self.first or found
        if first[0] != found[0] or any(kind_of(one) != kind_of(two) for one, two in zip(first[1], found[1], strict=True)):
            raise InvalidArgumentError(
                f"the datasets that {name_of_function(self.fn, 'the function')!r} made for {self.name} have elements {found[0]} of "
                f"{[spec.dtype for spec in found[1]]}, and {first[0]} of {[spec.dtype for spec in first[1]]} before; expected one "
                "structure with equal dtypes; bring them into one form with a map"
            )


def inner_dataset(returned: Element, name: str, fn: ElementFunction) -> Node:
    """The pipeline that a function has made.

    Raises:
        TypeError: it is no dataset.
        InvalidArgumentError: it shuffles without a seed: each call would draw another one, and no position could be found again.
    """
    called = name_of_function(fn, "the function")
    if not isinstance(returned, Pipeline):
        raise TypeError(
            f"{called!r} returned {type(returned).__name__} to {name}; expected a dataset; use map for a function that returns arrays, or "
            "wrap them in Dataset.from_tensor_slices"
        )
    if any(shuffle.draws_seed for shuffle in (*shuffles_of(returned.node), *cached_shuffles_of(returned.node))):
        raise InvalidArgumentError(
            f"the dataset that {called!r} made for {name} shuffles without a seed, so that its order would be another one for each worker "
            f"and after each restart; expected shuffle(..., seed=...); or shuffle behind {name}"
        )
    return returned.node
