"""`keras.tree.map_structure`, which calls its function in Python alone, so that the function may wait.

optree, which Keras takes for it, calls the function while its C++ puts the new tree together. Of such calls the last one has to end first,
and ends the process where it does not: where two launched mains each make variables in one (the states of a stateful layer), or read
some, and so wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from keras.src.tree import tree_api

__all__ = ["install"]


def install() -> None:
    """Let Keras map trees so. Done once; where Keras has no optree, there is nothing to do."""
    library: Any = getattr(tree_api.tree_impl, "optree", None)
    if library is None or hasattr(library, "by_simdist"):
        return

    def tree_map(function: Callable[..., object], tree: object, *others: object, is_leaf: Any = None, **options: Any) -> object:
        leaves, structure = library.tree_flatten(tree, is_leaf, **options)
        values = [function(*given) for given in zip(leaves, *map(structure.flatten_up_to, others), strict=True)]
        return library.tree_unflatten(structure, values)

    # A module for Keras alone: other users of optree keep theirs.
    own = ModuleType(library.__name__)
    vars(own).update(vars(library), tree_map=tree_map, by_simdist=True)
    setattr(tree_api.tree_impl, "optree", own)  # noqa: B010
