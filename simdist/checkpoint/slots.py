"""Which slot of a Keras optimizer belongs to which variable: a slot gets what was saved for the same variable.

Keras numbers what an optimizer keeps in the order in which it was made. This order is another one where other layers are trained, as after
a layer was frozen and is not any more; there the number of a slot is that of the slot of another variable. What names a slot has, the
checkpoint says; names differ from program to program, so they are compared by the paths of the variables that they name.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Mapping

from simdist.checkpoint.parts import slot_in

__all__ = ["SavedSlots"]


class SavedSlots:
    """The slots that a checkpoint has.

    Args:
        names: what owners call the arrays of the checkpoint, by path.
        aliases: other paths of what the checkpoint has.

    Example:
        >>> saved = SavedSlots({"w": "first/w", "b": "first/b", "opt/2": "sgd/first_w_momentum", "opt/3": "sgd/first_b_momentum"}, {})
        >>> saved.moved({"b": "second/b", "opt/2": "sgd_1/second_b_momentum"})
        {'opt/2': 'opt/3'}
    """

    def __init__(self, names: Mapping[str, str], aliases: Mapping[str, str]) -> None:
        self._aliases = aliases
        self._slots: dict[str, dict[str, dict[str, str]]] = {}  # of each optimizer: their paths by kind, by variable
        self._unknown: set[str] = set()  # optimizers of which not all variables are in the checkpoint
        variables = _variables_by_text(names)
        for path, name in names.items():
            kind, text = _kind_and_text(name)
            if not kind:
                continue
            base, owner = path.rpartition("/")[0], variables.get(text)
            if owner is None:
                self._unknown.add(base)
            else:
                self._slots.setdefault(base, {}).setdefault(owner, {})[kind] = path

    def moved(self, names: Mapping[str, str]) -> dict[str, str | None]:
        """The paths in the checkpoint of slots whose paths are others there, by their paths now; None where their variable had no slots.

        Args:
            names: what owners call what there is now, by path.
        """
        variables = _variables_by_text(names)
        found: dict[str, str | None] = {}
        for path, name in names.items():
            kind, text = _kind_and_text(name)
            if kind and text in variables:
                saved = self._path(path, kind, variables[text])
                found |= {} if saved == path else {path: saved}
        return found

    def _path(self, path: str, kind: str, variable: str) -> str | None:
        base, owner = path.rpartition("/")[0], self._aliases.get(variable, variable)
        slots = {} if base in self._unknown else self._slots.get(base, {})
        if slots and owner not in slots:
            return None
        return slots.get(owner, {}).get(kind, path)


def _variables_by_text(names: Mapping[str, str]) -> dict[str, str]:
    """The paths of variables by what stands for them in the names of slots; without those of which there are several."""
    found: dict[str, str] = {}
    several: set[str] = set()
    for path, name in names.items():
        text = name.replace("/", "_")
        several |= {text} if text in found else set()
        found[text] = path
    return {text: path for text, path in found.items() if text not in several}


def _kind_and_text(name: str) -> tuple[str, str]:
    """Which slot it is, and what stands for its variable: of ``adam/dense_kernel_velocity`` "velocity" and "dense_kernel"."""
    kind = slot_in(name)
    return kind, name.removesuffix(f"_{kind}").rpartition("/")[2]
