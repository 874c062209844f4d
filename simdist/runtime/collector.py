"""Settings of Python's garbage collector: it does not search the heap of JAX and Keras again and again.

A full pass over that heap costs a tenth of a second. It is taken out of collection once, before the first cluster is made, so
that nothing of a cluster is taken out with it: a cluster without references is collected.
"""

from __future__ import annotations

import gc

__all__ = ["spare_the_collector"]

# Young objects are looked through when so many have been made; a run makes many short-lived events.
YOUNG_OBJECTS = 50_000

_spared: list[bool] = []


def spare_the_collector() -> None:
    """Take what is on the heap out of collection, and collect less often; once for a process.

    ``gc.unfreeze()`` and ``gc.set_threshold(700)`` undo it.
    """
    if not _spared:
        _spared.append(True)
        gc.collect()
        gc.freeze()
        gc.set_threshold(max(YOUNG_OBJECTS, gc.get_threshold()[0]), *gc.get_threshold()[1:])
