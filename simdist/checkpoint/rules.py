"""Which state of an Optax optimizer belongs to which variables: it has a rule for each set of variables that it trains.

A checkpoint numbers the rules in the order in which they took their first step, and this order may be another one where it is restored.
So it has with each rule the paths of its variables, and a rule gets the state of the one that was saved for the same variables.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from simdist.checkpoint.contents import REPLICA_VALUES, Contents
from simdist.checkpoint.objects import Objects
from simdist.errors import InvalidArgumentError

__all__ = ["Labels", "SavedRules", "add_waiting", "labels_of_rules"]

Labels: TypeAlias = list[str]
"""Which variables a rule has, in their order: the path of each, or its name after a slash where the checkpoint has it not."""


def labels_of_rules(found: Objects) -> dict[str, list[Labels]]:
    """The labels of the rules that there are now, by the path of their optimizer."""
    return {
        path: [[next(iter(found.names_of(variable)), f"/{variable.name}") for variable in variables] for variables in optimizer.rules]
        for path, optimizer in found.optimizers.items()
        if optimizer.rules
    }


class SavedRules:
    """The rules that a checkpoint has.

    Args:
        labels: by the path of their optimizer; none in a checkpoint that was saved before there were any.
        aliases: other paths of what the checkpoint has.
        contents: of the checkpoint.
    """

    def __init__(self, labels: Mapping[str, Sequence[Labels]], aliases: Mapping[str, str], contents: Contents) -> None:
        self.labels = labels
        self._aliases = aliases
        self._contents = contents

    def path_in(self, found: Objects, path: str) -> str | None:
        """The path that the checkpoint has for this one; None where it is state of a rule that was not saved.

        Raises:
            InvalidArgumentError: the rule shares variables with others that were saved.
        """
        for base in found.optimizers:
            if path.startswith(f"{base}/") and self.labels.get(base):
                number, _, rest = path.removeprefix(f"{base}/").partition("/")
                saved = self._number(found, base, int(number))
                return None if saved is None else f"{base}/{saved}/{rest}"
        return path

    def left(self, found: Objects, base: str) -> list[str] | None:
        """The paths of the rules of an optimizer for which there are none yet; None where this is not known."""
        if not found.optimizers[base].is_built:
            return None
        prefix, names = f"{base}/", (*self._contents.arrays, *self._aliases)
        there = {name.removeprefix(prefix).partition("/")[0] for name in names if name.startswith(prefix)}
        numbers = range(len(found.optimizers[base].rules))
        taken = {str(number) for number in numbers}
        if self.labels.get(base):
            ours = [self.path_in(found, f"{base}/{number}/") for number in numbers]
            taken = {path.removeprefix(prefix).partition("/")[0] for path in ours if path is not None}
        return [f"{base}/{number}" for number in sorted(there - taken, key=lambda text: (len(text), text))]

    def _number(self, found: Objects, base: str, number: int) -> int | None:
        saved = self.labels[base]
        own = [self._label(found.names_of(variable), variable.name) for variable in found.optimizers[base].rules[number]]
        same = [other for other, labels in enumerate(saved) if list(labels) == own]
        if len(same) == 1:
            return same[0]
        if number < len(saved) and any(label.startswith("/") for label in (*own, *saved[number])):
            return number  # the variables themselves are not in the checkpoint: their order is all that there is
        shared = next((labels for labels in saved if set(labels) & set(own)), None)
        if shared is not None:
            raise InvalidArgumentError(
                f"{base} applies one update to {', '.join(own)}, and the checkpoint has its state for an update of {', '.join(shared)}. "
                "Call apply_gradients with the same variables in the same order as when it was saved, or leave the optimizer out."
            )
        return None

    def _label(self, names: Sequence[str], name: str) -> str:
        known = [there for path in names if (there := self._aliases.get(path, path)) in self._contents.arrays]
        return next(iter((*known, *names)), f"/{name}")


def add_waiting(contents: Contents, values: Contents) -> None:
    """Add to the contents of a checkpoint what waits for variables since a restore, where they have it not.

    The rules that wait get the numbers after those that there are.
    """
    moved: dict[str, str] = {}
    for base, rules in values.rules.items():
        known = contents.rules.setdefault(base, [])
        for number, labels in enumerate(rules):
            below = f"{base}/{number}/"
            if any(path.startswith(below) for path in values.arrays):
                is_known = labels in known and rules.count(labels) == 1
                moved[below] = "" if is_known else f"{base}/{len(known)}/"
                known += [] if is_known else [labels]
    for path in values.arrays:
        old = next((prefix for prefix in moved if path.removeprefix(f"{REPLICA_VALUES}/").startswith(prefix)), "")
        new = path.replace(old, moved[old], 1) if old else path
        if (not old or moved[old]) and new not in contents.arrays:
            contents.arrays[new], contents.names[new] = values.arrays[path], values.names[path]
            if path in values.replicas:
                contents.replicas[new] = values.replicas[path]
            if path in values.slots:
                contents.slots[new] = values.slots[path]
