"""Saved models: files as Keras writes them, read as our classes.

A file of ours names the classes of Keras, so that any Keras opens it without simdist. Where simdist.keras is loaded, those
names lead to our classes instead: inside a scope they make a model of that strategy, outside an ordinary Keras model. The
same holds for ``from_config``, ``model_from_json``, ``clone_model`` and files of the older format (``.h5``).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import keras
from keras.src import api_export, layers
from keras.src.legacy.saving import saving_utils
from keras.src.models import cloning, functional, sequential
from keras.src.utils import tracking

from simdist.training.keras_model import KerasArgument

__all__ = ["install"]


class _Maker:
    """What ``clone_model`` takes for the class Sequential: it knows all that are, and makes ours."""

    def __init__(self, original: Callable[..., keras.Sequential]) -> None:
        self.original = original

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, keras.Sequential)

    def __call__(self, *args: KerasArgument, **options: KerasArgument) -> keras.Sequential:
        return self.original(*args, **options)


def _copied(config: object) -> object:
    """A copy of the configuration of a model. A list that a layer tracks knows the layer's variables, which Keras would copy along."""
    if isinstance(config, (tracking.TrackedDict, tracking.TrackedOrderedDict)) or type(config) is dict:
        return {key: _copied(value) for key, value in cast("dict[object, object]", config).items()}
    if isinstance(config, tracking.TrackedList) or type(config) is list:
        return [_copied(value) for value in cast("list[object]", config)]
    if type(config) is tuple:
        return tuple([_copied(value) for value in cast("tuple[object, ...]", config)])
    return set(cast("set[object]", config)) if isinstance(config, tracking.TrackedSet) else copy.deepcopy(config)


def install(model: type, of_layers: type, of_graph: type, of_two: type) -> None:
    """Let Keras write our classes under the names of its own, and find ours under them. Done once.

    Args:
        model, of_layers, of_graph, of_two: our classes `Model`, `Sequential`, `Functional` and `Distiller`.
    """
    names = {"keras.Model": model, "keras.Sequential": of_layers, "keras.src.models.functional.Functional": of_graph}
    names["keras.distillation.Distiller"] = of_two
    for name, own in names.items():
        api_export.REGISTERED_OBJS_TO_NAMES[own] = name
        api_export.REGISTERED_NAMES_TO_OBJS[name] = own
    cloning.Sequential = _Maker(of_layers)
    of_older_files = {"Model": model, "Sequential": of_layers, "Functional": of_graph}
    saving_utils.MODULE_OBJECTS = SimpleNamespace(ALL_OBJECTS={**vars(layers), **of_older_files})
    functional.copy = sequential.copy = SimpleNamespace(deepcopy=_copied)
