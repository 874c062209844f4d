"""Settings of Python's garbage collector: it does not search the heap of JAX and Keras again and again.

A full pass over that heap costs a tenth of a second. So the first cluster of a process takes it out of collection, before there is
anything of a cluster: a cluster without references is collected. A user who does not want that says so, before or afterwards:
``sd.spare_the_collector(False)``.

Invariants: what the user has frozen, disabled or set by hand stays as it is; what is undone leaves nothing behind.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass

from simdist.arguments import flag

__all__ = ["spare_by_default", "spare_the_collector"]

# Young objects are looked through when so many have been made; a run makes many short-lived events.
YOUNG_OBJECTS = 100_000


@dataclass
class _Choice:
    """What was chosen for this process, and what it has changed.

    Attributes:
        is_settled: whether the user has chosen, or a cluster was made.
        threshold: the collector's before; None where it is not spared.
        froze: whether the heap was frozen here, and not by the user before.
    """

    is_settled: bool = False
    threshold: tuple[int, int, int] | None = None
    froze: bool = False


_choice = _Choice()


def spare_the_collector(on: bool = True) -> None:
    """Take what is on Python's heap now out of garbage collection, and collect less often; or undo that.

    Without a choice of yours the first cluster does it, once for the process: steps are faster by a tenth or more then. Objects that
    were alive at that time and become garbage in cycles later are not freed until it is undone.

    Args:
        on: False undoes it, and keeps clusters from doing it.

    Raises:
        TypeError: `on` is neither True nor False.

    Example: a notebook that wants Python's own ways begins with

        sd.spare_the_collector(False)
    """
    on = flag(on, "on")
    _choice.is_settled = True
    if on and _choice.threshold is None:
        _freeze_heap()
    elif not on and _choice.threshold is not None:
        _undo()


def spare_by_default() -> None:
    """What a cluster does before it is made, unless something was chosen."""
    if not _choice.is_settled:
        spare_the_collector()


def _freeze_heap() -> None:
    _choice.threshold = gc.get_threshold()
    _choice.froze = gc.get_freeze_count() == 0
    if _choice.froze:
        gc.collect()
        gc.freeze()
    gc.set_threshold(*_raised(_choice.threshold))


def _undo() -> None:
    assert _choice.threshold is not None
    if _choice.froze:
        gc.unfreeze()
    if gc.get_threshold() == _raised(_choice.threshold):  # else somebody has set another one since
        gc.set_threshold(*_choice.threshold)
    _choice.threshold, _choice.froze = None, False


def _raised(threshold: tuple[int, int, int]) -> tuple[int, int, int]:
    young, *older = threshold
    return (max(YOUNG_OBJECTS, young) if young else 0, older[0], older[1])  # a threshold of 0 switches collection off
