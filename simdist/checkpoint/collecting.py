"""What a checkpoint will hold: the values of this moment, those of all replicas, and the random streams.

Taught in lesson 09.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simdist.checkpoint.contents import Contents
from simdist.checkpoint.mains import Mains
from simdist.checkpoint.manifest import COUNTERS, ArrayEntry, Manifest, checksum_of
from simdist.checkpoint.objects import Objects
from simdist.checkpoint.parts import StatePart
from simdist.checkpoint.rules import add_waiting, labels_of_rules
from simdist.checkpoint.slot_labels import labels_of_slots
from simdist.checkpoint.variable_parts import VariablePart
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import HostArray
from simdist.program.saved_parts import SavedState

__all__ = ["Saved", "collected"]


@dataclass
class Saved:
    """What is to be written.

    Attributes:
        aliases: other paths of what is in it.
        held_by: bytes, by the task that holds them.
    """

    contents: Contents
    aliases: Mapping[str, str]
    held_by: Mapping[str, int]

    def manifest(self, number: int, sequence: int, saved_s: float) -> Manifest:
        """The manifest of these contents."""
        contents = self.contents
        arrays = {
            path: ArrayEntry(tuple(array.shape), str(array.dtype), checksum_of(array), contents.names.get(path, ""))
            for path, array in contents.arrays.items()
        }
        return Manifest(number, sequence, saved_s, arrays, dict(self.aliases), contents.states, contents.replicas)


def collected(found: Objects, mains: Mains, counters: Mapping[str, SavedState], waiting: Sequence[Contents] = ()) -> Saved:
    """The state of some objects now, of all mains together.

    Args:
        found: the objects.
        mains: that save.
        counters: state of the checkpoint itself.
        waiting: values from restores that wait for variables, the latest first.

    Raises:
        InvalidArgumentError: mains save different objects, or the state of one is no plain data.
    """
    variables = [part.variable for part in found.parts.values() if isinstance(part, VariablePart)]
    for store in dict.fromkeys(variable.placement.store for variable in variables):
        store.compute([variable for variable in variables if variable.placement.store is store and variable.placement.across is None])
    arrays = {path: part for path, part in found.parts.items() if not isinstance(part, StatePart)}
    local = {path: values for path, part in arrays.items() if (values := part.local()) is not None}
    states = {path: part.state() for path, part in found.parts.items() if isinstance(part, StatePart)}
    everywhere, all_states = mains.all_of(local, {"states": states, "draws": _draws(mains)})
    _require_same_paths([[*values, *one["states"]] for values, one in zip(everywhere, all_states, strict=True)])
    contents = Contents(rules=labels_of_rules(found), slots=dict(labels_of_slots(found)))
    for part in arrays.values():
        part.save(contents, everywhere)
    for values in waiting:
        add_waiting(contents, values)
    for path in states:
        contents.states[path] = [one["states"][path] for one in all_states]
    draws = {task: drawn for one in all_states for task, drawn in one["draws"].items()}
    labels = {name: labels for name, labels in (("rules", contents.rules), ("slots", contents.slots)) if labels}
    contents.states[COUNTERS] = {**counters, "draws": draws, **labels}
    contents.arrays.setdefault("simdist/saves", np.asarray(counters.get("save_counter", 0), np.int32))
    return Saved(contents, found.aliases, _held_by(found, mains, contents.arrays))


def _require_same_paths(of_mains: Sequence[Sequence[str]]) -> None:
    """Refuse mains that save different objects.

    Raises:
        InvalidArgumentError: they do.
    """
    for worker, paths in enumerate(of_mains):
        odd = sorted(set(paths).symmetric_difference(of_mains[0]))
        if odd:
            raise InvalidArgumentError(
                f"The mains of worker 0 and of worker {worker} save different objects: only one of them has {', '.join(odd[:8])}. Give "
                "Checkpoint the same objects in every main."
            )


def _draws(mains: Mains) -> dict[str, int]:
    """The positions of the random streams of steps, of the tasks that this program drives."""
    engine = mains.engine
    if engine is None:
        return {}
    return {task: drawn for task in mains.drawing_tasks if (drawn := engine.draws_of(task))}


def _held_by(found: Objects, mains: Mains, arrays: Mapping[str, HostArray]) -> Counter[str]:
    """Bytes of the contents by the task that holds them; what belongs to no strategy is held by the program."""
    held = mains.held_by([part.variable for part in found.parts.values() if isinstance(part, VariablePart)])
    held[mains.task] += max(sum(array.nbytes for array in arrays.values()) - sum(held.values()), 0)
    return held
