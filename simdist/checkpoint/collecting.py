"""What a checkpoint will hold: the values of this moment, those of all replicas, and the random streams.

Taught in lesson 09.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from simdist.checkpoint.mains import Mains
from simdist.checkpoint.manifest import COUNTERS, ArrayEntry, Manifest, checksum_of
from simdist.checkpoint.objects import Objects, Trackable
from simdist.checkpoint.parts import Contents, StatePart, VariablePart
from simdist.program.arrays import HostArray
from simdist.program.saved_parts import SavedState
from simdist.variables.variable import Variable

__all__ = ["Saved", "collected", "held_by"]


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


def collected(objects: Mapping[str, Trackable], mains: Mains, counters: Mapping[str, SavedState]) -> Saved:
    """The state of some objects now, of all mains together.

    Args:
        objects: by name.
        mains: that save.
        counters: state of the checkpoint itself.
    """
    found = Objects.of(objects)
    variables = [part.variable for part in found.parts.values() if isinstance(part, VariablePart)]
    for store in dict.fromkeys(variable.placement.store for variable in variables):
        store.compute([variable for variable in variables if variable.placement.store is store and variable.placement.across is None])
    arrays = {path: part for path, part in found.parts.items() if not isinstance(part, StatePart)}
    local = {path: values for path, part in arrays.items() if (values := part.local()) is not None}
    states = {path: part.state() for path, part in found.parts.items() if isinstance(part, StatePart)}
    everywhere, all_states = mains.all_of(local, {"states": states, "draws": _draws(mains)})
    contents = Contents(arrays={}, states={})
    for part in arrays.values():
        part.save(contents, everywhere)
    for path in states:
        contents.states[path] = [one["states"][path] for one in all_states]
    draws = {task: drawn for one in all_states for task, drawn in one["draws"].items()}
    contents.states[COUNTERS] = {**counters, "draws": draws}
    contents.arrays.setdefault("simdist/saves", np.asarray(counters.get("save_counter", 0), np.int32))
    return Saved(contents, found.aliases, _held_by(found, mains, contents.arrays))


def _draws(mains: Mains) -> dict[str, int]:
    """The positions of the random streams of steps, of the tasks that this program drives."""
    engine = mains.engine
    if engine is None:
        return {}
    tasks = [mains.task] if mains.task != engine.chief else engine.task_names
    return {task: drawn for task in tasks if (drawn := engine.draws_of(task))}


def _held_by(found: Objects, mains: Mains, arrays: Mapping[str, HostArray]) -> Counter[str]:
    """Bytes of the contents by the task that holds them; what belongs to no strategy is held by the program."""
    held = held_by([part.variable for part in found.parts.values() if isinstance(part, VariablePart)], mains)
    held[mains.task] += max(sum(array.nbytes for array in arrays.values()) - sum(held.values()), 0)
    return held


def held_by(variables: Iterable[Variable], mains: Mains) -> Counter[str]:
    """Bytes of the values of variables by the task that holds them.

    Args:
        variables: of strategies.
        mains: whose program wants them; of several copies that of its task counts, or else the first.
    """
    task = mains.task
    held = Counter({task: 0})
    for variable in variables:
        placement = variable.placement
        for cell in placement.cells[:1] if placement.spread == "copies" else placement.cells:
            holders = mains.holders_of(variable, cell)
            held[task if task in holders or not holders else holders[0]] += cell.aval.size_bytes
    return held
