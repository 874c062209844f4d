"""Elements of which some components have rows and others have not: features beside a weight of each class, or a number for a whole batch.

What a dataset says of its elements tells them apart: the first axis of a component with rows varies. So a replica for which there is no
element gets a part without rows, and the other components as they are, as in TensorFlow.

Invariant: elements whose components all have the same number of rows pass as they are, and nobody's function is called for them.

Taught in lesson 08.
"""

from __future__ import annotations

from simdist.data import Dataset
from simdist.data.batch import Batch
from simdist.data.iterator import DatasetIterator
from simdist.data.nodes import Node
from simdist.data.positions import Position

__all__ = ["RowLeaves", "has_fixed_shapes"]


class RowLeaves:
    """The elements of a pipeline; those with different first axes know which of their components have rows.

    Args:
        dataset: of the elements.

    Example:
        >>> import numpy as np
        >>> dataset = Dataset.range(3).batch(2).map(lambda x: (np.ones(1), x))
        >>> [batch.num_rows for batch in (RowLeaves(dataset).peek(i) for i in range(2))]
        [2, 1]
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.elements: DatasetIterator = iter(dataset)
        self._has_rows: tuple[bool, ...] | None = None  # until an element is not batched

    def peek(self, i: int = 0) -> Batch:
        """The next element but `i`.

        Raises:
            StopIteration: there are not so many.
        """
        return self._counted(self.elements.peek(i))

    def next_batch(self) -> Batch:
        """The next element.

        Raises:
            StopIteration: there is none.
        """
        return self._counted(self.elements.next_batch())

    def _counted(self, element: Batch) -> Batch:
        if element.rows is not None or (self._has_rows is None and element.is_batched):
            return element
        if self._has_rows is None:
            self._has_rows = tuple(spec.shape[:1] == (None,) for spec in self.dataset.node.spec()[1])
        return element.with_rows_of(self._has_rows) if any(self._has_rows) else element

    def state_dict(self) -> Position:
        """The position."""
        return self.elements.state_dict()

    def load_state_dict(self, state: Position) -> None:
        """Go to a position, and let later passes follow."""
        self.elements.load_state_dict(state)

    def go_to(self, state: Position) -> None:
        """Go to a position."""
        self.elements.go_to(state)


def has_fixed_shapes(node: Node) -> bool:
    """Whether all elements of a pipeline have one shape: the pipeline itself says so, or maps of what does.

    Example:
        >>> has_fixed_shapes(Dataset.range(3).node), has_fixed_shapes(Dataset.from_iterable([1, 2]).node)
        (True, False)
    """
    source = node
    while not source.knows_spec and len(source.sources) == 1:
        (source,) = source.sources
    return source.knows_spec and all(None not in spec.shape for each in (source, node) for spec in each.spec()[1])
