"""Saved models: files as Keras writes them, read as our classes.

A file of ours names the classes of Keras, so that any Keras opens it without simdist. Where simdist.keras is loaded, those
names lead to our classes instead: inside a scope they make a model of that strategy, outside an ordinary Keras model. The
same holds for ``from_config``, ``model_from_json``, ``clone_model`` and files of the older format (``.h5``).
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import keras
from keras.src import api_export, layers
from keras.src.legacy.saving import saving_utils
from keras.src.models import cloning

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


def install(model: type, sequential: type, functional: type) -> None:
    """Let Keras write our classes under the names of its own, and find ours under them. Done once.

    Args:
        model, sequential, functional: our classes.
    """
    names = {"keras.Model": model, "keras.Sequential": sequential, "keras.src.models.functional.Functional": functional}
    for name, own in names.items():
        api_export.REGISTERED_OBJS_TO_NAMES[own] = name
        api_export.REGISTERED_NAMES_TO_OBJS[name] = own
    cloning.Sequential = _Maker(sequential)
    of_older_files = {"Model": model, "Sequential": sequential, "Functional": functional}
    saving_utils.MODULE_OBJECTS = SimpleNamespace(ALL_OBJECTS={**vars(layers), **of_older_files})
