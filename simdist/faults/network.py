"""A partition: all messages between two sides are lost.

No task is notified. Who waits for an answer waits until it gives up; who listens for heartbeats hears none; and a request that
arrived, but whose answer was lost, has taken effect.

Where several overlap: a direction is open when no partition cuts it any more.

Taught in lesson 01.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from simdist.errors import InvalidArgumentError
from simdist.faults import parameters as declare
from simdist.faults.effects import Effects, Heal
from simdist.faults.shapes import LastingFault, all_of, names_of, shown

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
    a: str | Sequence[str] = field(metadata=declare.tasks("one side"))
    b: str | Sequence[str] = field(metadata=declare.tasks("the other side"))
    one_way: bool = field(default=False, metadata=declare.switch("only what a sends to b is lost"))

    @property
    def tasks(self) -> tuple[str, ...]:
        return (*names_of(self.a), *names_of(self.b))

    def check(self, effects: Effects | None = None) -> None:
        super().check(effects)
        for task in names_of(self.a):
            if task in names_of(self.b):
                raise InvalidArgumentError(
                    f"{task} is on both sides of the partition. A task can always reach itself: name it on one side."
                )

    def lay(self, effects: Effects) -> Heal:
        heals: list[Heal] = []
        for source in names_of(self.a):
            for target in names_of(self.b):
                heals.append(effects.cut(source, target))
                if not self.one_way:
                    heals.append(effects.cut(target, source))
        return all_of(heals)

    def facts(self, task: str) -> dict[str, Any]:
        """Whom the task cannot reach or hear (``peer``), and which of its messages are lost (``lost``)."""
        a, b = names_of(self.a), names_of(self.b)
        sends = task in a
        lost = "both" if not self.one_way else "sent" if sends else "received"
        return {"peer": ", ".join(b if sends else a), "lost": lost}

    def describe(self) -> str:
        return f"{self.kind}({shown(self.a)}, {shown(self.b)}, {self.trigger.describe()})"
