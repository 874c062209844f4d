"""Facts as JSON: the one text that equal facts have, whatever order or number type they were written in.

A fact is what a record carries besides its times: bytes, the number of a closure, the name of a task. Facts are
kept as they were given and become text only when a digest or a file is made.

Invariants: keys are sorted, numpy's numbers are written as Python's, sets are sorted, and a value whose text would
depend on the process (an address in memory) is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import cast

import numpy as np

from simdist.errors import InvalidArgumentError

__all__ = ["canonical_json", "plain"]


def canonical_json(value: object) -> str:
    """The JSON text of facts; NaN and infinities are written as Python's json module writes them.

    Raises:
        InvalidArgumentError: if a value has no text that is the same in every process.

    Example:
        >>> canonical_json({"b": np.int64(2), "a": (1, 0.5)})
        '{"a":[1,0.5],"b":2}'
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), default=plain)
    except TypeError:
        # Keys that are not text cannot be sorted beside those that are: write the whole value anew.
        return json.dumps(_text_keys(value), sort_keys=True, separators=(",", ":"), default=plain)


def plain(value: object) -> object:
    """A value of an unusual type as numbers, text, lists and dicts, one level deep.

    Raises:
        InvalidArgumentError: if there is no form of it that is the same in every process.

    Example:
        >>> plain({"ps:1", "ps:0"})
        ['ps:0', 'ps:1']
    """
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if isinstance(value, set | frozenset):
        return sorted(cast("set[object]", value), key=canonical_json)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise InvalidArgumentError(
        f"a fact of a trace must be made of numbers, text, lists and dicts; got {value!r} of type "
        f"{type(value).__name__}: record its name or its size instead."
    )


def _text_keys(value: object) -> object:
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {key if isinstance(key, str) else canonical_json(key): _text_keys(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [_text_keys(item) for item in cast("list[object]", value)]
    return value
