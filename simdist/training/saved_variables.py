"""The variables of Keras' objects, by their paths in them, as a checkpoint saves them.

The paths follow the structure, as those of Keras' own files do (``layers/dense_1/vars/0``), and no names that Keras counts up. A layer
whose `save_own_variables` gives arrays, and no variables, is given them back by its `load_own_variables`. Beyond Keras' files a model has
its metrics, the states of its stateful layers, and the adapters of LoRA by themselves, so that a training can go on where it was.

Taught in lesson 09.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MethodType
from typing import Any, TypeAlias

import keras
from keras.src.layers.layer import Layer
from keras.src.metrics.metric import Metric
from keras.src.optimizers.base_optimizer import BaseOptimizer
from keras.src.random.seed_generator import SeedGenerator
from keras.src.saving import saving_lib
from keras.src.saving.keras_saveable import KerasSaveable
from keras.src.trainers.compile_utils import CompileMetrics
from keras.src.utils import naming

from simdist.program.arrays import Array
from simdist.program.saved_parts import SavedParts, built
from simdist.training.keras_model import StrategyModel
from simdist.training.saved_slots import slots_of
from simdist.variables.keras_objects import is_built, is_scaling

__all__ = ["saved_variables"]

Saveable: TypeAlias = Any
"""An object of Keras that its files have."""


class _OwnArrays:
    """A layer that saves and loads its arrays itself."""

    def __init__(self, holder: Saveable) -> None:
        self.holder = holder

    def arrays(self) -> Mapping[str, Array]:
        found: dict[str, Any] = {}
        self.holder.save_own_variables(found)
        return {name: value.numpy() if isinstance(value, keras.Variable) else value for name, value in found.items()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        self.holder.load_own_variables(dict(arrays))


def saved_variables(holder: object) -> SavedParts | None:
    """What an object of Keras has to be saved; None: it is not one.

    Args:
        holder: a model, a layer, an optimizer, a metric or a variable.
    """
    if isinstance(holder, keras.Variable):
        return SavedParts({"": holder})
    if not isinstance(holder, KerasSaveable):
        return None
    walk = _Walk(holder)
    walk.visit(holder, "")
    return walk.found


def _positions_in(model: keras.Model) -> dict[int, str]:
    """Where the variables of a model stand in it, by their identity."""
    walk = _Walk(model, only_layers=True)
    walk.visit(model, "")
    return {id(variable): path for path, variable in walk.found.variables.items()}


class _Walk:
    """One walk over an object and what it is made of, each once; or over its layers only, which makes no slots."""

    def __init__(self, root: Saveable, only_layers: bool = False) -> None:
        self.root = root
        self.only_layers = only_layers
        self.found = SavedParts()
        self._visited: set[int] = set()

    def visit(self, holder: Saveable, path: str) -> None:
        if id(holder) in self._visited or (self.only_layers and isinstance(holder, (BaseOptimizer, Metric))):
            return
        self._visited.add(id(holder))
        if isinstance(holder, StrategyModel) and not self.only_layers:
            holder.simdist_build_slots()
            self.found.strategy = self.found.strategy or holder.simdist_strategy
        match holder:
            case BaseOptimizer():
                self._numbered(path, _of_optimizer(holder))
                if is_built(holder):
                    # In a model that is saved, too, the paths of its variables tell where they stand.
                    slots = enumerate(slots_of(holder, _positions_in if holder is self.root else lambda model: {}))
                    self.found.slots |= {_joined(path, f"vars/{number}"): owner for number, owner in slots}
                else:
                    self.found.unbuilt.append(holder)
                    _notify_of_build(holder)
                return
            case Metric():
                self._list(path, holder.variables)
                if isinstance(holder, CompileMetrics) and not holder.built:
                    self.found.unbuilt.append(self.root)
                return
            case SeedGenerator():
                self._list(path, [holder.state])
                return
            case Layer():
                self._layer(holder, path)
            case _:
                pass
        self._children(holder, path)
        if isinstance(holder, keras.Model):
            self._of_model(holder, path)

    def _list(self, path: str, variables: Iterable[keras.Variable]) -> None:
        self._numbered(path, enumerate(variables))

    def _numbered(self, path: str, variables: Iterable[tuple[int, keras.Variable]]) -> None:
        for number, variable in variables:
            self.found.variables[_joined(path, f"vars/{number}")] = variable

    def _layer(self, layer: Saveable, path: str) -> None:
        if not layer.built:
            self.found.unbuilt.append(layer)
        given = _given_of(layer) if layer.built else {}
        if all(isinstance(value, keras.Variable) for value in given.values()):
            self.found.variables |= {_joined(path, f"vars/{name}"): variable for name, variable in given.items()}
            if given and hasattr(layer, "finalize_state"):
                self.found.derived[path] = layer.finalize_state  # Normalization calls with arrays that it makes of its variables
        else:
            self.found.custom[_joined(path, "own")] = _OwnArrays(layer)
        if isinstance(layer, keras.layers.RNN):
            self._states(layer, path)
        for number, generator in enumerate(layer._seed_generators):
            self.visit(generator, _joined(path, f"seed_generators/{number}"))

    def _states(self, layer: Saveable, path: str) -> None:
        """The states of a stateful layer, of which Keras' files have none. A model for batches of another size does without."""
        for number, state in enumerate(keras.tree.flatten(layer.states or ())):
            name = _joined(f"states_of_{state.shape[0]}_rows", _joined(path, str(number)))
            self.found.variables[name] = state
            self.found.optional.add(name)

    def _children(self, holder: Saveable, path: str) -> None:
        own = {id(part) for part in _of_training(holder)}
        for name, child in saving_lib._walk_saveable(holder):
            if id(child) not in own:
                self._child(child, _joined(path, name))

    def _child(self, child: object, path: str) -> None:
        if isinstance(child, KerasSaveable):
            self.visit(child, path)
        elif isinstance(child, (list, tuple, dict)):
            for name, inner in _numbered(child.values() if isinstance(child, dict) else child):
                self._child(inner, _joined(path, name))

    def _of_model(self, model: keras.Model, path: str) -> None:
        if model.compiled and model.optimizer is not None:
            self.visit(model.optimizer, _joined(path, "optimizer"))
        for number, metric in enumerate(model.metrics):
            self.visit(metric, _joined(path, f"metrics/{number}"))


def _given_of(layer: Saveable) -> dict[str, Any]:
    """What a layer gives to be saved; of one with LoRA each variable, where Keras' files have the kernel with its product added."""
    given: dict[str, Any] = {}
    if not getattr(layer, "lora_enabled", False):
        layer.save_own_variables(given)
        return given
    layer.lora_enabled = False
    try:
        layer.save_own_variables(given)
    finally:
        layer.lora_enabled = True
    adapters = {name: value for name, value in vars(layer).items() if name.startswith("lora_") and isinstance(value, keras.Variable)}
    return given | adapters


def _of_optimizer(optimizer: Saveable) -> Iterator[tuple[int, keras.Variable]]:
    """The variables of an optimizer, with the numbers that they have when it is built."""
    if is_built(optimizer):
        yield from enumerate(optimizer.variables)
        return
    own: Sequence[keras.Variable] = optimizer._variables
    yield from enumerate(own)
    if is_scaling(optimizer):  # whose build makes its step counter and its scale, before the slots of the inner one
        for number, variable in _of_optimizer(optimizer.inner_optimizer):
            yield len(own) + 2 + number, variable


def _notify_of_build(optimizer: Saveable) -> None:
    """Let `built` know when an optimizer of Keras has its variables; layers and models say so themselves, by a hook that they share."""
    vars(optimizer)["build"] = MethodType(_build, optimizer)


def _build(optimizer: Saveable, variables: Sequence[keras.Variable]) -> None:
    vars(optimizer).pop("build", None)
    optimizer.build(variables)
    built(optimizer)


def _of_training(holder: Saveable) -> Sequence[object]:
    """What a model was compiled with, which has paths of its own."""
    return [holder.optimizer, *holder.metrics] if isinstance(holder, keras.Model) and holder.compiled else ()


def _numbered(children: Iterable[object]) -> Iterator[tuple[str, object]]:
    """Children with names that do not depend on those that Keras counts up: their classes, and numbers from the second on."""
    counts: Counter[str] = Counter()
    for child in children:
        if not isinstance(child, (KerasSaveable, list, tuple, dict)):
            continue
        name = naming.to_snake_case(type(child).__name__) if isinstance(child, KerasSaveable) else "container"
        counts[name] += 1
        yield name if counts[name] == 1 else f"{name}_{counts[name] - 1}", child


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
