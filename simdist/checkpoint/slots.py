"""Which slot of a Keras optimizer belongs to which variable: a slot gets what was saved for the same variable.

Keras numbers what an optimizer keeps in the order in which it was made. This order is another one where other layers are trained, as after
a layer was frozen and is not any more; there the number of a slot is that of the slot of another variable. What names a slot has, the
checkpoint says; names differ from program to program, so they are compared by the paths of the variables that they name. The rows and
columns of Adafactor are called as their variable alone ("kernel"), and stand before its slot; what is left belongs to all variables.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile

from simdist.checkpoint.parts import slot_in

__all__ = ["SavedSlots"]

Label = tuple[str, str]
"""Of what an optimizer keeps: what stands for its variable in names, empty where it is none of one variable, and which of those it is."""


class SavedSlots:
    """The slots that a checkpoint has.

    Args:
        names: what owners call the arrays of the checkpoint, by path.
        aliases: other paths of what the checkpoint has.

    Example:
        >>> saved = SavedSlots({"w": "first/w", "b": "first/b", "opt/2": "sgd/first_w_momentum", "opt/3": "sgd/first_b_momentum"}, {})
        >>> saved.moved({"b": "second/b", "opt/2": "sgd_1/second_b_momentum"}, {})
        {'opt/2': 'opt/3'}
    """

    def __init__(self, names: Mapping[str, str], aliases: Mapping[str, str]) -> None:
        self._aliases = aliases
        self._slots: dict[str, dict[Label, str]] = {}  # of each optimizer: their paths by variable and kind
        self._owners: dict[str, str] = {}  # the variables by the paths of their slots; empty where it is none of one variable
        self._unknown: set[str] = set()  # optimizers of which not all variables are known
        variables = _variables_by_text(names) | {"": ""}
        for base, labels in _labels_by_optimizer(names).items():
            known = {path: (variables[text], kind) for path, (text, kind) in labels.items() if text in variables}
            self._slots[base] = {label: path for path, label in known.items()}
            self._owners |= {path: owner for path, (owner, _) in known.items()}
            self._unknown |= {base} if len(known) < len(labels) else set()
        self._bases = {_base_of(alias): _base_of(first) for alias, first in aliases.items() if _base_of(first) in self._slots}

    def moved(self, names: Mapping[str, str], aliases: Mapping[str, str]) -> dict[str, str | None]:
        """The paths in the checkpoint of slots whose paths are others there, by their paths now; None where their variable had no slots.

        Args:
            names: what owners call what there is now, by path.
            aliases: other paths of what there is now.
        """
        variables, all_paths = _variables_by_text(names) | {"": ""}, {path: [path] for path in ("", *names)}
        for alias, first in aliases.items():
            all_paths.get(first, []).append(alias)
        known = {self._aliases.get(path, path) for variable in variables.values() for path in all_paths[variable]}
        found: dict[str, str | None] = {}
        for labels in _labels_by_optimizer(names).values():
            for first, (text, kind) in labels.items():
                owners = [self._aliases.get(path, path) for path in all_paths[variables[text]]] if text in variables else []
                found |= {path: self._path(path, owners, kind, known) for path in all_paths[first]}
        return {path: saved for path, saved in found.items() if saved != path}

    def _path(self, path: str, owners: Sequence[str], kind: str, known: Collection[str]) -> str | None:
        """The path in the checkpoint, which is the same where nothing is known; None where there is nothing for this slot.

        Args:
            path, kind: of the slot now.
            owners: the paths in the checkpoint of its variable; none where this is not known.
            known: those of all variables that are known now.
        """
        base = self._bases.get(_base_of(path), _base_of(path))
        slots, same = self._slots.get(base, {}), self._aliases.get(path, path)
        saved = next((slots[owner, kind] for owner in owners if (owner, kind) in slots), None)
        if saved is not None or any(owner in owners for owner, _ in slots):
            return saved or path  # a slot of another kind of optimizer is refused by its path
        if slots and owners and base not in self._unknown:
            return None
        return None if self._owners.get(same) in known else path  # no variable gets the slot of another one


def _base_of(path: str) -> str:
    """The path of the optimizer, of one of what it keeps."""
    return path.rpartition("/")[0]


def _variables_by_text(names: Mapping[str, str]) -> dict[str, str]:
    """The paths of variables by what stands for them in the names of slots; without those of which there are several."""
    found: dict[str, str] = {}
    several: set[str] = set()
    for path, name in names.items():
        text = name.replace("/", "_")
        several |= {text} if text in found else set()
        found[text] = path
    return {text: path for text, path in found.items() if text not in several}


def _labels_by_optimizer(names: Mapping[str, str]) -> dict[str, dict[str, Label]]:
    """What each optimizer keeps, by the path of the optimizer: the labels by path."""
    bases = dict.fromkeys([_base_of(path) for path, name in names.items() if _kind_and_text(name)[0]])
    kept: dict[str, list[str]] = {base: [] for base in bases}
    for path in names:
        kept.get(_base_of(path), []).append(path)
    return {base: _labels_of({path: names[path] for path in sorted(paths, key=_order_of)}) for base, paths in kept.items()}


def _order_of(path: str) -> tuple[int, str]:
    number = path.rpartition("/")[2]
    return (int(number) if number.isdecimal() else -1), path


def _labels_of(names: Mapping[str, str]) -> dict[str, Label]:
    """The labels of what one optimizer keeps, in its order."""
    found: dict[str, Label] = {}
    before: list[str] = []  # since the last slot
    for path, name in names.items():
        kind, text = _kind_and_text(name)
        if kind:
            own = takewhile(lambda other, text=text: f"_{text}".endswith(f"_{names[other].rpartition('/')[2]}"), reversed(before))
            found |= {other: (text, f"{number} before {kind}") for number, other in enumerate(own, 1)} | {path: (text, kind)}
            before.clear()
        else:
            before.append(path)
    common = [path for path in names if path not in found]
    return found | {path: ("", f"{number} of {len(common)}") for number, path in enumerate(common)}


def _kind_and_text(name: str) -> Label:
    """Which slot it is, and what stands for its variable: of ``adam/dense_kernel_velocity`` "velocity" and "dense_kernel".

    A name without that of an optimizer is none of a slot: ``loss_average`` may be a variable of the program.
    """
    kind = slot_in(name) if "/" in name else ""
    return kind, name.removesuffix(f"_{kind}").rpartition("/")[2]
