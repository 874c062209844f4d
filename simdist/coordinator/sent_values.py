"""What travels between the chief and a worker as the arguments and the result of a plain function: as it is at that moment.

In a cluster it would be bytes. So no function sees what another one, or its own first run, has changed in its arguments, and a result stays
what it was when the function returned. Arrays and Python's own containers are copied; any other object is the same on both sides.
"""

from __future__ import annotations

import copy
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

from simdist.program.values import snapshot

__all__ = ["sent"]

CHANGEABLE = (list, deque, dict, OrderedDict, defaultdict, Counter)


def sent(value: Any) -> Any:
    """A value as the other side gets it.

    Example:
        >>> import numpy as np
        >>> total, history = np.zeros(2), [1]
        >>> reply = sent({"total": total, "history": history})
        >>> total += 1
        >>> history.append(2)
        >>> reply
        {'total': array([0., 0.]), 'history': [1]}
    """
    return _sent(value, {})


def _sent(value: Any, known: dict[int, Any]) -> Any:
    """As `sent`; `known` are the copies so far, by what they are of: a list may be in itself."""
    kind: Any = type(value)
    if kind is set:
        return set(value)
    if kind in CHANGEABLE:
        if id(value) not in known:
            own = known[id(value)] = copy.copy(value)
            for key, part in list(value.items()) if isinstance(value, dict) else enumerate(value):
                own[key] = _sent(part, known)
        return known[id(value)]
    if kind is tuple:
        return tuple([_sent(part, known) for part in value])
    return kind(*[_sent(part, known) for part in value]) if hasattr(kind, "_fields") and isinstance(value, tuple) else snapshot(value)
