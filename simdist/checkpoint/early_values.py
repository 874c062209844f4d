"""Values that an optimizer gets before it is built: its count and its rate. They are taken back where its slots are refused later.

Which variables an optimizer will train is not known before it is built, so a checkpoint may turn out not to fit then. An optimizer with the
count of the checkpoint and slots of nothing would train on with wrong averages.
"""

from __future__ import annotations

from collections.abc import Mapping

from simdist.checkpoint.contents import Contents
from simdist.checkpoint.objects import Objects
from simdist.checkpoint.parts import Part
from simdist.checkpoint.slot_labels import base_of
from simdist.checkpoint.variable_parts import VariablePart

__all__ = ["EarlyValues"]


class EarlyValues:
    """What optimizers had before a restore that is not over.

    Args:
        worker: the main that restores.
    """

    def __init__(self, worker: int) -> None:
        self._worker = worker
        self._before: dict[str, list[tuple[VariablePart, Contents]]] = {}  # by where the variables of an optimizer are

    def note(self, found: Objects, wanted: Mapping[str, tuple[Part, str]]) -> None:
        """Remember what is going to be replaced of optimizers that are not built."""
        waiting = {f"{path}/vars" for path, _ in found.unbuilt} - _with_slots(found)
        for path, (part, _) in wanted.items():
            if base_of(path) in waiting and isinstance(part, VariablePart):
                before = Contents()
                part.save(before, ())
                self._before.setdefault(base_of(path), []).append((part, before))

    def settle(self, found: Objects) -> None:
        """Optimizers that are built now have got their slots."""
        for base in _with_slots(found):
            self._before.pop(base, None)

    def take_back(self, found: Objects) -> None:
        """Optimizers that are built now were refused."""
        for base in _with_slots(found):
            for part, before in self._before.pop(base, ()):
                part.restore(part.path, before, self._worker)


def _with_slots(found: Objects) -> set[str]:
    """Where the variables are of the Keras optimizers that have slots."""
    return {base_of(path) for path, slot in found.slots.items() if slot.variable is not None}
