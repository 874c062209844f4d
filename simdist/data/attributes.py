"""What objects hold: attributes in a dict or in slots, entries of containers, members of classes. No code of the user runs.

Taught in lesson 08.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from simdist.data.known_code import is_library, module_of
from simdist.data.putting_back import MISSING

__all__ = ["CONTAINERS", "dict_of", "entries_of", "implied_members", "slots_of"]

CONTAINERS = (list, tuple, dict, set, frozenset, deque)
NO_CODE = frozenset(
    {
        *(
            "__abstractmethods__",
            "__annotations__",
            "__dataclass_fields__",
            "__dataclass_params__",
            "__dict__",
            "__doc__",
            "__match_args__",
        ),
        *("__module__", "__orig_bases__", "__parameters__", "__qualname__", "__slots__", "__weakref__", "__firstlineno__"),
        *("__static_attributes__", "__protocol_attrs__", "__non_callable_proto_members__"),
    }
)
MAKERS = frozenset({"__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__", "__del__"})


def entries_of(part: Any) -> list[object]:
    """What a container holds (of a dict, keys and then values), whatever its class says about it."""
    if isinstance(part, dict):
        return [*dict.keys(part), *dict.values(part)]
    if isinstance(part, np.ndarray):
        return part.ravel().tolist()
    base: Any = next(kind for kind in CONTAINERS if isinstance(part, kind))
    return list(base.__iter__(part))


def dict_of(part: object) -> dict[str, object]:
    """The attributes of an object that it keeps in a dict."""
    try:
        found = object.__getattribute__(part, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def slots_of(part: object) -> dict[str, object]:
    """The attributes of an object that its classes keep in slots."""
    found: dict[str, object] = {}
    for base in type(part).__mro__:
        for name, slot in vars(base).items() if not is_library(module_of(base)) else ():
            if isinstance(slot, types.MemberDescriptorType):
                try:
                    found[name] = slot.__get__(part)
                except AttributeError:
                    found[name] = MISSING
    return found


def implied_members(members: Mapping[str, object], is_called: bool) -> frozenset[str]:
    """The names of a class that Python uses by itself: ``__call__``, ``__add__`` and so on.

    Args:
        members: the dict of the class.
        is_called: whether code may make new objects of the class.
    """
    found = frozenset(name for name in members if name.startswith("__") and name.endswith("__")) - NO_CODE
    return found if is_called else found - MAKERS
