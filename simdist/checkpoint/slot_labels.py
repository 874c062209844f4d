"""Labels that say whose the variables of a Keras optimizer are: a checkpoint has them beside its arrays.

Keras numbers what an optimizer keeps in the order in which it was made, and this order is another one where other layers are trained. A
label has what tells the variable of a slot: its path in the checkpoint, if it is there; its name; and its position in the model that was
compiled with the optimizer. Checkpoints that were saved before there were labels have the names of slots alone. There these are compared
with those of variables; the rows and columns of Adafactor are called as their variable alone ("kernel"), and stand before its slot.

Taught in lesson 09.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import takewhile
from typing import NamedTuple

from simdist.checkpoint.fitting import slot_in
from simdist.checkpoint.objects import Objects
from simdist.variables.handles import shown_name

__all__ = ["COMMON", "Label", "base_of", "labels_by_name", "labels_of_slots"]

COMMON = ""
"""The owner of what belongs to all variables."""


class Label(NamedTuple):
    """Whose a variable of an optimizer is.

    Attributes:
        owner: tells the variables apart that the optimizer was built for; `COMMON` where it belongs to all.
        kind: which of those of its owner: "velocity", or a number.
        path: of the owner in the checkpoint; "" where it is not there.
        name: what the program calls the owner.
        position: of the owner in the model that was compiled with the optimizer; "" where that is not known.
    """

    owner: str
    kind: str
    path: str = ""
    name: str = ""
    position: str = ""


def base_of(path: str) -> str:
    """The path of the optimizer, of one of its variables."""
    return path.rpartition("/")[0]


def labels_of_slots(found: Objects) -> dict[str, Label]:
    """The labels of what Keras optimizers have now, by first paths."""
    names, labels = found.names, dict[str, Label]()
    totals = Counter([base_of(path) for path, slot in found.slots.items() if slot.variable is None])
    counts: Counter[tuple[str, str]] = Counter()
    for path, slot in found.slots.items():
        base, owner = base_of(path), COMMON if slot.variable is None else str(slot.number)
        kind = slot_in(names[path]) if owner else ""
        if not kind:
            counts[base, owner] += 1
            kind = str(counts[base, owner]) if owner else f"{counts[base, owner]} of {totals[base]}"
        of_variable = next(iter(found.names_of(slot.variable)), "") if owner else ""
        labels[path] = Label(owner, kind, of_variable, str(shown_name(slot.variable)) if owner else "", slot.position)
    return labels


def labels_by_name(names: Mapping[str, str]) -> dict[str, Label]:
    """The labels by which slots are known that have none, by path; without optimizers that have no slots."""
    variables, labels = _variables_by_text(names), dict[str, Label]()
    for found in _labels_by_optimizer(names).values():
        counts: Counter[tuple[str, str]] = Counter()
        for path, (text, kind) in found.items():
            counts[text, kind] += 1  # several variables may have one name
            labels[path] = Label(f"{text} {counts[text, kind]}" if text else COMMON, kind, variables.get(text, ""), text)
    return labels


def _variables_by_text(names: Mapping[str, str]) -> dict[str, str]:
    """The paths of variables by what stands for them in the names of slots; without those of which there are several."""
    found: dict[str, str] = {}
    several: set[str] = set()
    for path, name in names.items():
        text = name.replace("/", "_")
        several |= {text} if text in found else set()
        found[text] = path
    return {text: path for text, path in found.items() if text not in several}


def _labels_by_optimizer(names: Mapping[str, str]) -> dict[str, dict[str, tuple[str, str]]]:
    """What each optimizer keeps, by the path of the optimizer: the labels by path."""
    bases = dict.fromkeys([base_of(path) for path, name in names.items() if _kind_and_text(name)[0]])
    kept: dict[str, list[str]] = {base: [] for base in bases}
    for path in names:
        kept.get(base_of(path), []).append(path)
    return {base: _labels_of({path: names[path] for path in sorted(paths, key=_order_of)}) for base, paths in kept.items()}


def _order_of(path: str) -> tuple[int, str]:
    number = path.rpartition("/")[2]
    return (int(number) if number.isdecimal() else -1), path


def _labels_of(names: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The labels of what one optimizer keeps, in its order."""
    found: dict[str, tuple[str, str]] = {}
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


def _kind_and_text(name: str) -> tuple[str, str]:
    """Which slot it is, and what stands for its variable: of ``adam/dense_kernel_velocity`` "velocity" and "dense_kernel".

    A name without that of an optimizer is none of a slot: ``loss_average`` may be a variable of the program.
    """
    kind = slot_in(name) if "/" in name else ""
    return kind, name.removesuffix(f"_{kind}").rpartition("/")[2]
