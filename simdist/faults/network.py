"""What befalls the way between tasks: messages are lost.

Nobody is told. Who waits for an answer waits until it gives up; who listens for heartbeats hears none; and a request that
arrived, but whose answer was lost, has taken effect.

Where several meet: a direction is open when no partition cuts it any more.

Taught in lesson 01.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from simdist.arguments import flag
from simdist.errors import InvalidArgumentError
from simdist.faults.base import Effects, Heal
from simdist.faults.shapes import LastingFault, known_task

__all__ = ["Partition"]


@dataclass(eq=False)
class Partition(LastingFault, kind="partition"):
    """Two sides cannot reach each other; all else can.

    The trace tells it at the lane of each task of both sides.

    Args:
        a: one side: the name of a task, or a list of names. The steps of the first one are those of ``after_steps=``.
        b: the other side.
        one_way: only what `a` sends to `b` is lost; default False: both directions.
    """

    silences = True
    a: str | Sequence[str]
    b: str | Sequence[str]
    one_way: bool = False

    @property
    def tasks(self) -> tuple[str, ...]:
        return (*_names(self.a), *_names(self.b))

    def check(self, effects: Effects) -> None:
        self.one_way = flag(self.one_way, "one_way")
        super().check(effects)
        a, b = _known_side("a", self.a, effects), _known_side("b", self.b, effects)
        for task in a:
            if task in b:
                raise InvalidArgumentError(
                    f"{task} is on both sides of the partition. A task can always reach itself: name it on one side."
                )
        self.a, self.b = a, b

    def lay(self, effects: Effects) -> Heal:
        heals: list[Heal] = []
        for source in _names(self.a):
            for target in _names(self.b):
                heals.append(effects.cut(source, target))
                if not self.one_way:
                    heals.append(effects.cut(target, source))

        def heal() -> None:
            for open_again in heals:
                open_again()

        return heal

    def facts(self, task: str) -> dict[str, Any]:
        """Whom the task cannot reach or hear (``peer``), and which of its messages are lost (``lost``)."""
        a, b = _names(self.a), _names(self.b)
        sends = task in a
        lost = "both" if not self.one_way else "sent" if sends else "received"
        return {"peer": ", ".join(b if sends else a), "lost": lost}

    def describe(self) -> str:
        return f"{self.kind}({_shown(self.a)}, {_shown(self.b)}, {self.trigger.describe()})"


def _names(side: str | Sequence[str]) -> tuple[str, ...]:
    return (side,) if isinstance(side, str) else tuple(side)


def _known_side(name: str, side: Any, effects: Effects) -> tuple[str, ...]:
    """The names of one side, whole, each once."""
    if not isinstance(side, (str, list, tuple)) or not side:
        raise InvalidArgumentError(
            f"{name}={side!r} must be the name of a task, or a list of at least one name, such as ['worker:1', 'ps:0']."
        )
    return tuple(dict.fromkeys(known_task(task, effects) for task in _names(side)))


def _shown(side: str | Sequence[str]) -> str:
    """As a user would write it."""
    names = _names(side)
    return repr(names[0] if len(names) == 1 else list(names))
