"""One restore: everything is read and checked before anything changes, and what does not exist yet gets its value later.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path

from simdist.checkpoint.contents import KEPT, REPLICA_VALUES, Contents
from simdist.checkpoint.early_values import EarlyValues
from simdist.checkpoint.files import read
from simdist.checkpoint.mains import Mains
from simdist.checkpoint.manifest import COUNTERS
from simdist.checkpoint.objects import Objects, Trackable
from simdist.checkpoint.parts import OwnPart, Part, StatePart
from simdist.checkpoint.reading import bring
from simdist.checkpoint.rules import SavedRules
from simdist.checkpoint.slot_labels import Label, labels_of_slots
from simdist.checkpoint.slots import SavedSlots
from simdist.checkpoint.status import RestoreStatus
from simdist.checkpoint.variable_parts import CompanionPart, VariablePart
from simdist.errors import InvalidArgumentError
from simdist.interrupts import delayed_interrupts
from simdist.program.arrays import HostArray
from simdist.program.restored_together import Followed, restored_together
from simdist.program.saved_parts import SavedState, when_built

__all__ = ["Restoring"]


class Restoring:
    """The restore of one checkpoint into some objects.

    Args:
        objects: by name.
        path: of the checkpoint.
        mains: that restore it together.

    Attributes:
        status: what has become of it.
        counter: how many saves the checkpoint had counted.
    """

    def __init__(self, objects: Mapping[str, Trackable], path: Path, mains: Mains) -> None:
        self.objects = objects
        self.mains = mains
        self.manifest, arrays = read(path)
        names = {name: entry.name for name, entry in self.manifest.arrays.items()}
        self.contents = Contents(arrays, names, dict(self.manifest.states), dict(self.manifest.replicas))
        self.status = RestoreStatus(str(path))
        counters = self.contents.states.get(COUNTERS, {"save_counter": 0, "draws": {}})
        self.counter: int = counters["save_counter"]
        self._draws: dict[str, int] = counters["draws"]
        self._rules = SavedRules(counters.get("rules", {}), self.manifest.aliases, self.contents)
        self._labels = {path: Label(*label) for path, label in counters.get("slots", {}).items()}
        self._slots = SavedSlots(names, self.manifest.aliases, self._labels)
        self._used: set[str] = set()
        self._followed: Followed = {}
        self._waiting: tuple[str, ...] = ()  # the beginnings of paths for which there are no variables yet
        self._early = EarlyValues(mains.worker)
        found = Objects.of(objects)
        wanted = self._wanted(found)
        self._take_time(path, wanted)
        self._early.note(found, wanted)
        self._carry_out(found, wanted)
        for name, part in found.parts.items():
            if isinstance(part, CompanionPart) and name not in wanted and part.main in wanted:
                part.begin()
        self._set_draws()

    def _wanted(self, found: Objects) -> dict[str, tuple[Part, str]]:
        """The parts that the checkpoint has, with their paths in it, all of which fit."""
        wanted: dict[str, tuple[Part, str]] = {}
        slots = self._slots.moved(found.names, found.aliases, labels_of_slots(found))
        for path, part in found.parts.items():
            names = [path, *(alias for alias, first in found.aliases.items() if first == path)]
            saved_as = [there for name in names if (there := slots.get(name, self._rules.path_in(found, name))) is not None]
            known = next((there for name in saved_as if (there := self._there(part, name)) is not None), None)
            if known is not None:
                wanted[path] = part, known
        return wanted

    def _there(self, part: Part, path: str) -> str | None:
        """The path in the checkpoint of what is asked for by this one."""
        return next((name for name in (path, self.manifest.aliases.get(path, path)) if part.check(name, self.contents)), None)

    def _carry_out(self, found: Objects, wanted: Mapping[str, tuple[Part, str]]) -> None:
        """Change what is wanted: first what may refuse it, and can be changed back."""
        with self.mains.between_updates():
            self._change(wanted)
        for path, renew in found.derived.items():
            if any(name.startswith(f"{path}/") for name in wanted):
                renew()
        self._note(found, wanted)

    def _change(self, wanted: Mapping[str, tuple[Part, str]]) -> None:
        _require_holders([part for part, _ in wanted.values() if isinstance(part, VariablePart)])
        with ExitStack() as undo, restored_together(self._followed):  # what is undone was not restored together
            for part, name in wanted.values():
                if isinstance(part, StatePart):
                    undo.callback(part.holder.load_state_dict, part.holder.state_dict())
                    part.holder.load_state_dict(self._state(name))
                elif isinstance(part, OwnPart):
                    undo.callback(part.state.restore, part.state.arrays())
                    part.restore(name, self.contents, self.mains.worker)
            undo.pop_all()
        with delayed_interrupts():  # each assignment may compute for long what is pending, and waits for no other task
            for part, name in wanted.values():
                if not isinstance(part, (StatePart, OwnPart)):
                    part.restore(name, self.contents, self.mains.worker)

    def _state(self, path: str) -> SavedState:
        """The plain data of this main."""
        of_mains = self.contents.states[path]
        return of_mains[min(self.mains.worker, len(of_mains) - 1)]

    def _note(self, found: Objects, wanted: Mapping[str, tuple[Part, str]]) -> None:
        status = self.status
        status.restored += [path for path in wanted if path not in status.restored]
        self._used |= {name for _, name in wanted.values()}
        wanting = [path for path in found.parts if path not in status.restored and path not in found.optional]
        status.missing[:] = [path for path in wanting if not path.startswith(KEPT)]
        unbuilt = [(below, holder) for path, holder in found.unbuilt for below in self._without_variables(found, path)]
        waiting_for = [(path, holder) for path, holder in unbuilt if self._has_more_below(path)]
        status.waiting[:] = [path for path, _ in waiting_for if not path.startswith(KEPT)]
        there = [*self.contents.arrays, *self.contents.states]
        self._waiting = tuple(f"{name}/" for path, _ in waiting_for for name in (path, self.manifest.aliases.get(path, path)))
        passed_over = ("simdist/", f"{REPLICA_VALUES}/", *self._waiting)
        status.superfluous[:] = [path for path in there if not path.startswith(passed_over) and not self._is_used(path)]
        for holder in {id(holder): holder for _, holder in waiting_for}.values():
            when_built(holder, self._go_on, partial(self._values_below, [path for path, one in found.unbuilt if one is holder]))

    def _without_variables(self, found: Objects, path: str) -> list[str]:
        """The paths below which an object has no variables yet."""
        left = self._rules.left(found, path) if path in found.optimizers else None
        return [path] if left is None else left

    @property
    def has_more(self) -> bool:
        """Whether there are values that no object has had yet."""
        return bool(self.status.superfluous or self.waiting().arrays)

    def quiet(self) -> Restoring:
        """The same restore, whose status does not warn: it goes on where this one is, and both have the same lists."""
        other = copy(self)
        other.status = replace(self.status).expect_partial()
        return other

    def take(self, name: str) -> bool:
        """Give a new object of this name what there is for it; whether there is something."""
        if not any(path == name or path.startswith(f"{name}/") for path in self.status.superfluous):
            return False
        self._go_on()
        return True

    def waiting(self) -> Contents:
        """What waits for variables that do not exist yet: a checkpoint that is saved meanwhile has it as well."""
        found = Contents(rules={base: [list(rule) for rule in rules] for base, rules in self._rules.labels.items()})
        for path, array in self.contents.arrays.items():
            base = path.removeprefix(f"{REPLICA_VALUES}/")
            if base.startswith(self._waiting) and not self._is_used(base):
                found.arrays[path] = array
                found.names[path] = self.manifest.arrays[path].name
                if base in self.contents.replicas:
                    found.replicas[base] = self.contents.replicas[base]
                if path in self._labels:
                    found.slots[path] = self._labels[path]
        return found

    def _is_used(self, path: str) -> bool:
        return path in self._used or any(path.startswith(f"{name}/") for name in self._used)

    def _has_more_below(self, path: str) -> bool:
        """Whether the checkpoint has values for an object that has no variables yet."""
        prefixes = tuple(f"{name}/" for name in (path, self.manifest.aliases.get(path, path)))
        return any(name.startswith(prefixes) and not self._is_used(name) for name in (*self.contents.arrays, *self.manifest.aliases))

    def _values_below(self, paths: Sequence[str]) -> dict[str, HostArray]:
        """The values that nothing has taken yet of an object with these paths, by their paths in it."""
        values: dict[str, HostArray] = {}
        for name in (*self.contents.arrays, *self.manifest.aliases):
            there = self.manifest.aliases.get(name, name)
            base = next((path for path in paths if name.startswith(f"{path}/")), None)
            if base is not None and there in self.contents.arrays and not self._is_used(there):
                values[name.removeprefix(f"{base}/")] = self.contents.arrays[there]
        return values

    def _go_on(self) -> None:
        """Variables have been made for which values have waited."""
        found = Objects.of(self.objects)
        try:
            wanted = {path: one for path, one in self._wanted(found).items() if path not in self.status.restored}
        except InvalidArgumentError:
            self._early.take_back(found)
            raise
        if self.mains.engine is None:  # no strategy was known before there was a variable
            self.mains = Mains(found.strategies)
            self._set_draws()
        self._early.note(found, wanted)
        self._carry_out(found, wanted)
        self._early.settle(found)

    # -- time and random streams ----------------------------------------------------------------------------------

    def _take_time(self, path: Path, wanted: Mapping[str, tuple[Part, str]]) -> None:
        """Read from the disk, and send to other tasks what they hold."""
        variables = [part.variable for part, _ in wanted.values() if isinstance(part, VariablePart)]
        bring(self.mains, path, self.manifest.size_bytes, variables)

    def _set_draws(self) -> None:
        engine = self.mains.engine
        if engine is not None:
            for name in self.mains.drawing_tasks:
                engine.set_draws(name, self._draws.get(name, 0))


def _require_holders(parts: Sequence[VariablePart]) -> None:
    """Refuse to change anything while a task is down that holds a part of it.

    Raises:
        UnavailableError: one is.
    """
    variables = [part.variable for part in parts]
    for store in dict.fromkeys(variable.placement.store for variable in variables):
        store.require_present([variable for variable in variables if variable.placement.store is store])
