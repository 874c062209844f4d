"""From the objects of a checkpoint to their parts: variables, optimizers, Keras' models and layers, iterators, and nests of these.

A path is the name that the object has in the checkpoint, and those of its attributes in it: ``model/layers/dense/vars/0``. It is the same
for the same program, whatever names Keras has given.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from simdist.checkpoint.contents import KEPT
from simdist.checkpoint.parts import OwnPart, Part, Stateful, StatePart
from simdist.checkpoint.paths import replace_parts
from simdist.checkpoint.variable_parts import CompanionPart, PlainVariablePart, VariablePart
from simdist.errors import InvalidArgumentError
from simdist.program.saved_parts import OwnState, SavedScope, SlotOf
from simdist.program.scope import libraries
from simdist.variables.handles import own_variable
from simdist.variables.optimizer import Optimizer
from simdist.variables.variable import Variable

__all__ = ["Nest", "Objects", "Trackable"]

Trackable: TypeAlias = object
"""What a checkpoint can save."""


class Nest:
    """Objects by name, which are saved in the place where it is: a checkpoint in a checkpoint."""

    def __init__(self, objects: Mapping[str, Trackable]) -> None:
        self.objects = dict(objects)


@dataclass
class Objects:
    """What there is of some objects now.

    Attributes:
        parts: each thing once, by its first path, in the order of the objects.
        aliases: other paths of the same things, by these.
        unbuilt: objects whose variables do not exist yet, or not all, with their paths.
        derived: what renews the values that objects have made of their variables, by their paths.
        optimizers: of Optax, by their paths.
        slots: whose the variables of Keras optimizers are, by their first paths.
        optional: paths of what may keep its value where a checkpoint has none for it.
    """

    parts: dict[str, Part] = field(default_factory=dict[str, Part])
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    unbuilt: list[tuple[str, object]] = field(default_factory=list[tuple[str, object]])
    derived: dict[str, Callable[[], object]] = field(default_factory=dict[str, Callable[[], object]])
    optimizers: dict[str, Optimizer] = field(default_factory=dict[str, Optimizer])
    slots: dict[str, SlotOf] = field(default_factory=dict[str, SlotOf])
    optional: set[str] = field(default_factory=set[str])
    _paths: dict[int, str] = field(default_factory=dict[int, str])
    _strategies: list[SavedScope] = field(default_factory=list[SavedScope])

    @classmethod
    def of(cls, objects: Mapping[str, Trackable]) -> Objects:
        """The parts of some objects, by name.

        Raises:
            InvalidArgumentError: one of them cannot be saved.
        """
        found = cls()
        for name, value in objects.items():
            found._add(name, value)
        for number, strategy in enumerate(found.strategies):
            found._add_kept(number, strategy)
        return found

    @property
    def strategies(self) -> list[SavedScope]:
        """The strategies whose variables are among them, or will be."""
        owners = [part.variable.placement.store.strategy for part in self.parts.values() if isinstance(part, VariablePart)]
        return list(dict.fromkeys(owner for owner in (*owners, *self._strategies) if owner is not None))

    @property
    def names(self) -> dict[str, str]:
        """What their owners call the variables, by path."""
        own = {path: part.variable.name for path, part in self.parts.items() if isinstance(part, VariablePart)}
        return own | {path: part.variable.path for path, part in self.parts.items() if isinstance(part, PlainVariablePart)}

    def names_of(self, variable: object) -> list[str]:
        """The paths of a variable, ours or of Keras, the first one first; none where it is not among the objects."""
        own = own_variable(variable)
        first = self._paths.get(id(variable if own is None else own.placement.cells[0]))
        return [] if first is None else [first, *(alias for alias, path in self.aliases.items() if path == first)]

    def _add_kept(self, number: int, strategy: SavedScope) -> None:
        """Add what a strategy keeps from step to step."""
        for name, kept in strategy.kept.items():
            self._add(f"{KEPT}/strategies/{number}/{name}", kept)
        if strategy.keeps_companions:
            self.unbuilt.append((f"{KEPT}/companions", strategy))

    def _add(self, path: str, value: Trackable) -> None:
        own = own_variable(value)
        if own is not None:
            self._variable(path, own)
        elif isinstance(value, Optimizer):
            self._optimizer(path, value)
        elif isinstance(value, Nest):
            self._children(path, value.objects)
        elif isinstance(value, (dict, Mapping)):
            self._children(path, _by_text(path, cast("Mapping[object, object]", value)))
        elif isinstance(value, (list, tuple)):
            self._children(path, {str(number): child for number, child in enumerate(cast("Sequence[object]", value))})
        elif isinstance(value, OwnState):
            self._note(OwnPart(path, value, value.holder))
        elif not self._of_library(path, value):
            self._other(path, value)

    def _children(self, path: str, children: Mapping[str, Trackable]) -> None:
        for name, child in children.items():
            self._add(f"{path}/{replace_parts(name)}", child)

    def _optimizer(self, path: str, optimizer: Optimizer) -> None:
        if self._of_library(path, optimizer.wrapped):
            return
        for name, variable in optimizer.saved_state().items():
            self._note(VariablePart(f"{path}/{name}", variable))
        self.optimizers[path] = optimizer
        self.unbuilt.append((path, optimizer))  # whenever it trains other variables, it gets more state

    def _of_library(self, path: str, value: Trackable) -> bool:
        for library in libraries:
            found = library.saved_parts(value)
            if found is None:
                continue
            for name, variable in found.variables.items():
                below = f"{path}/{name}" if name else path
                own = own_variable(variable)
                if own is None:
                    self._note(PlainVariablePart(below, variable))
                else:
                    self._variable(below, own)
            self.optional |= {f"{path}/{name}" for name in found.optional}
            self.slots |= {below: owner for name, owner in found.slots.items() if (below := f"{path}/{name}") in self.parts}
            for name, state in found.custom.items():
                self._note(OwnPart(f"{path}/{name}", state, state.holder))
            self.unbuilt += [(path, holder) for holder in found.unbuilt]
            self.derived |= {(f"{path}/{name}" if name else path): renew for name, renew in found.derived.items()}
            self._strategies.append(found.strategy)
            return True
        return False

    def _other(self, path: str, value: Trackable) -> None:
        if not isinstance(value, Stateful):
            raise InvalidArgumentError(
                f"{path} is {_shown(value)}, which a checkpoint cannot save. It saves variables, optimizers, models, layers and metrics of "
                "Keras, iterators, what has state_dict() and load_state_dict(state), and dicts and lists of these; a number that changes "
                "goes into an sd.Variable."
            )
        self._note(StatePart(path, value))

    def _variable(self, path: str, variable: Variable) -> None:
        self._note(VariablePart(path, variable))
        for name, companion in variable.companions.items():
            self._note(CompanionPart(f"{KEPT}/companions/{path}/{name}", companion, path))

    def _note(self, part: Part) -> None:
        first = self._paths.setdefault(part.identity, part.path)
        if first == part.path:
            self.parts[part.path] = part
        else:
            self.aliases[part.path] = first


def _by_text(path: str, children: Mapping[object, Trackable]) -> dict[str, Trackable]:
    """The children of a dict by the text of their keys.

    Raises:
        InvalidArgumentError: two keys have the same text.
    """
    named = {str(name): child for name, child in children.items()}
    if len(named) < len(children):
        raise InvalidArgumentError(f"{path} is a dict of which two keys have the same text: {list(children)}. Let them differ as text.")
    return named


def _shown(value: object) -> str:
    if isinstance(value, Callable) and hasattr(value, "__name__"):
        return "a function"
    return f"{value!r}" if isinstance(value, (int, float, str, bool)) else f"a {type(value).__name__}"
