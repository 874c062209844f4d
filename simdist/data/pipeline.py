"""What every dataset can say of itself: its elements' shapes, how many there are, its options, and an iterator.

Asking has no effect that can be seen: no shuffle counts an iteration for it, and a one-pass iterator is put
back as it was. Only a function of the user may be called on first elements, where nothing else knows its shape.

Taught in lesson 01.
"""

from __future__ import annotations

from simdist.data.iterator import DatasetIterator
from simdist.data.leaves import Tree, unflatten
from simdist.data.nodes import INFINITE, Node
from simdist.data.options import Options
from simdist.data.reorder import prefetched
from simdist.data.table import Table

__all__ = ["Pipeline"]


class Pipeline:
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
