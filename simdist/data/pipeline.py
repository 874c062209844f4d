"""What every dataset can say of itself: its elements' shapes, how many there are, its options, an iterator, and what all elements come to.

Asking has no effect that can be seen: no shuffle counts an iteration for it, and a one-pass iterator is put
back as it was. Only a function of the user may be called on first elements, where nothing else knows its shape.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, Self, TypeVar

from simdist.data.absent_names import OF_DATASETS, KnowsAbsentNames, of_property, refusal
from simdist.data.folding import require_end
from simdist.data.iterator import DatasetIterator
from simdist.data.leaves import Element, Tree, unflatten
from simdist.data.nodes import INFINITE, Node
from simdist.data.options import Options
from simdist.data.reorder import prefetched
from simdist.data.table import Table
from simdist.errors import InvalidArgumentError

__all__ = ["Pipeline"]

State = TypeVar("State")


class Pipeline(metaclass=KnowsAbsentNames):
    """A chain of steps with options; `Dataset` adds the methods that make and extend one.

    Args:
        node: the last step.
        options: wishes that the elements carry.
    """

    def __init__(self, node: Node, options: Options | None = None) -> None:
        self._node = node
        self._options = options or Options()

    def __iter__(self) -> DatasetIterator:
        return DatasetIterator(self._node)

    def as_numpy_iterator(self) -> DatasetIterator:
        """An iterator over the elements, which are nested numpy arrays in any case: ``iter(dataset)``."""
        return iter(self)

    def reduce(self, initial_state: State, reduce_func: Callable[[State, Element], State]) -> State:
        """One value of all elements: a function is called with a state and an element, and returns the next state.

        Args:
            initial_state: the state before the first element, of any kind; the result for a dataset without elements.
            reduce_func: from a state and an element, which is one argument even where it is a tuple, to the new state.

        Raises:
            InvalidArgumentError: the dataset has no end.

        Example:
            >>> from simdist.data import Dataset
            >>> int(Dataset.range(5).reduce(0, lambda total, x: total + x))
            10
        """
        if not callable(reduce_func):
            raise TypeError(f"reduce was given {reduce_func!r}; expected a function of a state and an element")
        require_end(self._node, "reduce")
        state, elements = initial_state, iter(self)
        while True:
            try:
                batch = elements.next_batch()
            except StopIteration:
                return state
            state = reduce_func(state, unflatten(batch.structure, batch.arguments()))

    def get_single_element(self) -> Element:
        """The only element, as nested numpy arrays.

        Raises:
            InvalidArgumentError: there is none, or more than one.

        Example:
            >>> from simdist.data import Dataset
            >>> Dataset.range(3).batch(3).get_single_element()
            array([0, 1, 2], dtype=int32)
        """
        elements = iter(self)
        first, second = elements.get_next_as_optional(), elements.get_next_as_optional()
        if not first.has_value() or second.has_value():
            raise InvalidArgumentError(
                f"get_single_element was asked of {self!r}, which has {'more than one element' if second.has_value() else 'no element'}; "
                "expected one; use take(1), or batch(n)"
            )
        return first.get_value()

    @property
    def node(self) -> Node:
        """The last step of the chain."""
        return self._node

    def options(self) -> Options:
        """A copy of the options that the dataset carries."""
        return Options().merge(self._options)

    @property
    def prefetched(self) -> int:
        """Elements that the last ``prefetch`` of the chain keeps ready; 0 without one."""
        return prefetched(self._node)

    @property
    def element_spec(self) -> Tree:
        """Shape and dtype of each component, as `ArraySpec`; None stands for a dimension that varies.

        Where only a function of the user can tell, it is called on the first element, and on a few more where that cannot be
        noticed; these stand for all.

        Example:
            >>> from simdist.data import Dataset
            >>> Dataset.range(5).batch(2).element_spec
            ArraySpec(shape=(None,), dtype='int32')
        """
        return unflatten(*self._node.spec())

    @property
    def table(self) -> Table | None:
        """The table that the elements, or the rows of the batches, are rows of; None for concrete elements."""
        return self._node.table() or self._node.batched_table()

    @property
    def static_batch_size(self) -> int | None:
        """The batch size where the pipeline itself says it; None before batching, and after a map of batches."""
        return self._node.static_batch_size

    def cardinality(self) -> int:
        """Number of elements; -1 without an end, -2 where only running can tell.

        Example:
            >>> from simdist.data import Dataset
            >>> Dataset.range(10).batch(4).cardinality(), Dataset.range(3).repeat().cardinality()
            (3, -1)
        """
        return self._node.cardinality()

    def _then(self, node: Node) -> Self:
        """This dataset with another last step."""
        return type(self)(node, self._options)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            of_property(self, name)
            raise refusal("'Dataset' object", name, OF_DATASETS.get(name))

    def __len__(self) -> int:
        count = self.cardinality()
        if count < 0:
            why = "has no end" if count == INFINITE else "has a length that only running it can tell"
            raise TypeError(f"this dataset {why}: {self!r}; use .cardinality(), or .take(n) before len()")
        return count

    def __bool__(self) -> bool:
        return True  # never a question of its length

    def __repr__(self) -> str:
        return self._node.describe()
