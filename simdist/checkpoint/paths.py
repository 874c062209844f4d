"""Paths in a checkpoint, such as ``model/layers/dense/vars/0``, and the nested dicts that Orbax has in their place.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

import numpy as np

from simdist.program.arrays import HostArray

__all__ = ["ArrayTree", "flattened", "nested", "original_name", "replace_parts"]

ArrayTree: TypeAlias = dict[str, Any]
"""Arrays in nested dicts, by the parts of their paths."""


def replace_parts(name: str) -> str:
    """A name that is one part of a path: without the signs that stand between parts, ours and that of Orbax.

    Example:
        >>> replace_parts("a/b.c")
        'a%2Fb%2Ec'
    """
    return name.replace("%", "%25").replace("/", "%2F").replace(".", "%2E")


def original_name(part: str) -> str:
    """The name that `replace_parts` was given.

    Example:
        >>> original_name("a%2Fb%2Ec")
        'a/b.c'
    """
    return unquote(part)


def nested(arrays: Mapping[str, HostArray]) -> ArrayTree:
    """Arrays in nested dicts, by the parts of their paths.

    Example:
        >>> nested({"model/0": np.zeros(1), "v": np.ones(1)})
        {'model': {'0': array([0.])}, 'v': array([1.])}
    """
    tree: ArrayTree = {}
    for path, array in arrays.items():
        *parents, last = path.split("/")
        at = tree
        for parent in parents:
            at = at.setdefault(parent, {})
        at[last] = array
    return tree


def flattened(tree: ArrayTree, prefix: str = "") -> dict[str, HostArray]:
    """Arrays by their paths: what `nested` was given.

    Example:
        >>> flattened({"model": {"0": 1.0}})
        {'model/0': array(1.)}
    """
    found: dict[str, HostArray] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            found.update(flattened(value, f"{prefix}{name}/"))
        else:
            found[prefix + name] = np.asarray(value)
    return found
