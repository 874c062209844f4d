"""Somebody presses Ctrl-C while numbers are computed for a look, and looks again.

What the kernels are to raise is put where every plan calls them (`Kernel.__call__`, `Machine.run`), for the time of one look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from simdist.chaos.dice import Dice
from simdist.chaos.kinds.base import Ground, Kind
from simdist.chaos.scenarios import Disturbance
from simdist.ledger.replay import Machine
from simdist.program.kernels import Kernel

if TYPE_CHECKING:
    from simdist.chaos.stage import Stage

__all__ = ["Interrupt"]


class Interrupt(Kind):
    """A look that ends early, at the k-th kernel that it calls."""

    name = "interrupt"
    share = 0.6
    needs_numbers = True

    def draw(self, dice: Dice, ground: Ground) -> list[Disturbance]:
        looks = max(1, ground.looks)
        figures = {"look": looks if dice.chance(0.5) else dice.whole(1, looks), "call": int(dice.log_real(1, 12))}
        return [Disturbance(self.name, "chief:0", figures=figures)]

    def plan(self, stage: Stage, disturbance: Disturbance) -> Callable[[], bool]:
        happened: list[bool] = []

        def before(look: int, read: Callable[[], Any]) -> None:
            if look != disturbance.figures["look"]:
                return
            with _interrupted(disturbance.figures["call"]):
                try:
                    read()
                except KeyboardInterrupt:
                    happened.append(True)

        stage.before_looks.append(before)
        return lambda: bool(happened)


@contextmanager
def _interrupted(call: int) -> Iterator[None]:
    """Raise KeyboardInterrupt instead of making the k-th call of a kernel."""
    left = [call]
    seams: list[tuple[Any, str]] = [(Kernel, "__call__"), (Machine, "run")]
    originals = [getattr(owner, name) for owner, name in seams]

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def calling(*args: Any, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
            return original(*args, **kwargs)

        return calling

    try:
        for (owner, name), original in zip(seams, originals, strict=True):
            setattr(owner, name, counted(original))
        yield
    finally:
        for (owner, name), original in zip(seams, originals, strict=True):
            setattr(owner, name, original)
