"""Which slot of a Keras optimizer belongs to which variable: a slot gets what was saved for the same variable.

The same variable is one with the same path in the checkpoint. Where the checkpoint has the optimizer without its variables, it is known
by its position in the model that was compiled with the optimizer, and by its name. If these leave it open, the restore is refused.

Taught in lesson 09.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from typing import NoReturn

from simdist.checkpoint.slot_labels import COMMON, Label, base_of, labels_by_name
from simdist.errors import InvalidArgumentError

__all__ = ["SavedSlots"]

NUMBERS = re.compile(r"_\d+(?=[/_]|$)")
"""What Keras appends to the names of later models and layers."""
SHOWN = 6


class SavedSlots:
    """The slots that a checkpoint has.

    Args:
        names: what owners call the arrays of the checkpoint, by path.
        aliases: other paths of what the checkpoint has.
        labels: of its slots; none in a checkpoint that was saved before there were any.

    Example:
        >>> saved = SavedSlots({"w": "first/w", "b": "first/b", "opt/2": "sgd/first_w_momentum", "opt/3": "sgd/first_b_momentum"}, {})
        >>> saved.moved({"b": "second/b", "opt/2": "sgd_1/second_b_momentum"}, {})
        {'opt/2': 'opt/3'}
    """

    def __init__(self, names: Mapping[str, str], aliases: Mapping[str, str], labels: Mapping[str, Label] | None = None) -> None:
        self._names = names
        self._aliases = aliases
        self._labelled = _by_optimizer(labels or {})
        self._slots = _by_optimizer(labels_by_name(names)) | self._labelled
        self._bases = {base_of(alias): base_of(first) for alias, first in aliases.items() if base_of(first) in self._slots}

    def moved(
        self, names: Mapping[str, str], aliases: Mapping[str, str], labels: Mapping[str, Label] | None = None
    ) -> dict[str, str | None]:
        """The paths in the checkpoint of slots whose paths are others there, by their paths now; None where their variable had no slots.

        Args:
            names: what owners call what there is now, by path.
            aliases: other paths of what there is now.
            labels: of the slots that there are now.

        Raises:
            InvalidArgumentError: it is not known whose they are.
        """
        all_paths = {path: [path] for path in names}
        for alias, first in aliases.items():
            all_paths.get(first, []).append(alias)
        labelled, named = _by_optimizer(labels or {}), _by_optimizer(labels_by_name(names))
        found: dict[str, str | None] = {}
        for first_base in named | labelled:
            paths = labelled.get(first_base, {}) | named.get(first_base, {})
            for base in dict.fromkeys(base_of(path) for first in paths for path in all_paths[first]):
                saved_base = self._bases.get(base, base)
                known = labelled if saved_base in self._labelled and first_base in labelled else named
                own, saved = known.get(first_base, {}), self._slots.get(saved_base, {})
                pairs = self._pairs(base, _owners(own), _owners(saved), all_paths) if saved else {}
                for first, label in own.items():
                    of_base = [path for path in all_paths[first] if base_of(path) == base]
                    found |= {path: self._path(path, label, pairs, saved) if saved else path for path in of_base}
        return {path: saved for path, saved in found.items() if saved != path}

    def _path(self, path: str, label: Label, pairs: Mapping[str, str | None], saved: Mapping[str, Label]) -> str | None:
        """The path in the checkpoint; None where there is nothing for this slot.

        Args:
            path, label: of the slot now.
            pairs: the owners in the checkpoint of those that there are now.
            saved: what the optimizer has there.
        """
        owner = pairs.get(label.owner)
        there = next((other for other, its in saved.items() if (its.owner, its.kind) == (owner, label.kind)), None)
        if there is not None or owner is None:
            return there
        same = saved.get(self._aliases.get(path, path))
        if label.owner == COMMON:
            return path if same is None or same.owner == COMMON else None
        is_of_another_kind = same is not None and not label.kind.isdecimal() and not same.kind.isdecimal() and same.kind != label.kind
        return path if is_of_another_kind else None  # a slot of another kind of optimizer is refused by its path

    def _pairs(
        self, base: str, present: Sequence[Label], saved: Sequence[Label], paths: Mapping[str, Sequence[str]]
    ) -> dict[str, str | None]:
        """The owners in the checkpoint of those that there are now; None where there is none.

        Raises:
            InvalidArgumentError: it is not known.
        """
        known = {owner.owner: [self._aliases.get(path, path) for path in paths.get(owner.path, ())] for owner in present}
        by_path = {owner.path: owner.owner for owner in saved if owner.path}
        pairs = {owner: next((by_path[path] for path in there if path in by_path), None) for owner, there in known.items()}
        paths_now = {self._aliases.get(path, path) for there in paths.values() for path in there}
        left = [owner for owner in saved if owner.owner not in pairs.values() and owner.path not in paths_now]
        may_be_any = {owner: not there or not all(one.path for one in left) for owner, there in known.items()}
        without = [
            one
            for one in present
            if pairs[one.owner] is None and may_be_any[one.owner] and not any(path in self._names for path in known[one.owner])
        ]
        if without and left:
            pairs |= _known_by_name(without, left) or _refused(base.removesuffix("/vars"), without, left)
        return {**pairs, COMMON: COMMON}


def _refused(path: str, present: Sequence[Label], saved: Sequence[Label]) -> NoReturn:
    raise InvalidArgumentError(
        f"{path} has slots of {_shown(present)}, and the checkpoint has slots of {_shown(saved)}: whose is whose is not known, as the "
        "checkpoint has not these variables. Save and restore the model, or the variables, together with the optimizer; or give layers and "
        "variables names of their own, and restore into the same program."
    )


def _known_by_name(present: Sequence[Label], saved: Sequence[Label]) -> dict[str, str | None] | None:
    """The owners in the checkpoint by position and by name; None where these disagree, or do not say it."""
    names, saved_names = [one.name for one in present], [one.name for one in saved]
    in_order = {one.owner: other.owner for one, other in zip(present, saved, strict=False)}
    if names == saved_names:
        return dict(in_order)
    are_alike = [NUMBERS.sub("", name) for name in names] == [NUMBERS.sub("", name) for name in saved_names]
    by_name = {one.name: one.owner for one in saved}
    is_unique = len(set(names)) == len(names) and len(by_name) == len(saved)
    if not all(one.position for one in (*present, *saved)):
        says_it = is_unique and not are_alike and bool(by_name.keys() & set(names))
        return {one.owner: by_name.get(one.name) for one in present} if says_it else None
    if are_alike and [one.position for one in present] == [one.position for one in saved]:
        return dict(in_order)  # a later model of the same layers, whose names Keras has counted up
    by_position = {one.position: one for one in saved}
    pairs = [(one, by_position.get(one.position)) for one in present]
    if is_unique and any(_disagree(one.name, "" if its is None else its.name, by_name, names) for one, its in pairs):
        return None
    return {one.owner: None if its is None else its.owner for one, its in pairs}


def _disagree(name: str, saved_name: str, saved: Container[str], present_names: Container[str]) -> bool:
    """Whether two variables of one position have different names, of which one is that of another variable."""
    return name != saved_name and (name in saved or saved_name in present_names)


def _by_optimizer(labels: Mapping[str, Label]) -> dict[str, dict[str, Label]]:
    found: dict[str, dict[str, Label]] = {}
    for path, label in labels.items():
        found.setdefault(base_of(path), {})[path] = label
    return found


def _owners(labels: Mapping[str, Label]) -> list[Label]:
    """One label of each owner, in their order."""
    found: dict[str, Label] = {}
    for label in labels.values():
        found.setdefault(label.owner, label)
    return [label for owner, label in found.items() if owner != COMMON]


def _shown(owners: Sequence[Label]) -> str:
    names = [one.name for one in owners[:SHOWN]]
    return ", ".join([*names, *([f"{len(owners) - SHOWN} more"] if len(owners) > SHOWN else [])])
