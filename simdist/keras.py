"""Keras 3 on JAX, with models that know strategies.

``from simdist import keras`` gives everything that Keras has; `Model` and `Sequential` are ours, also in `models`, the `Distiller` of
`distillation`, and some of `callbacks` (`simdist.training.callbacks`).
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

from simdist.errors import FailedPreconditionError
from simdist.extras import needs
from simdist.quick_imports import without_collector

os.environ["KERAS_BACKEND"] = os.environ.get("KERAS_BACKEND") or "jax"
if sys.modules.get("keras") is not None and sys.modules["keras"].backend.backend() != "jax":
    raise FailedPreconditionError(
        f"Keras is already loaded with the backend {sys.modules['keras'].backend.backend()!r}. Set KERAS_BACKEND=jax before the first "
        "import of keras, or import simdist.keras first."
    )
if sys.modules.get("keras") is None and os.environ["KERAS_BACKEND"] != "jax":
    raise FailedPreconditionError(
        f"KERAS_BACKEND is {os.environ['KERAS_BACKEND']!r}, but simdist computes with JAX. Unset it, or set KERAS_BACKEND=jax."
    )

with needs("simdist.keras", "keras"), without_collector():
    import keras as _keras

from simdist.training import adoption, applying, first_builds, global_denominators, lookups, plain_models, synchronised_moments, tree_maps

adoption.install()
first_builds.install()
synchronised_moments.install()
applying.install()
global_denominators.install()
lookups.install()
plain_models.install()
tree_maps.install()

from simdist.training import callbacks as _own_callbacks  # noqa: E402
from simdist.training.model import Distiller, Model, Sequential  # noqa: E402

__all__ = ["Model", "Sequential", "callbacks", "distillation", "models"]


class _Overlay(ModuleType):
    """A module of Keras, with classes of ours in the place of some of its own."""

    def __init__(self, of: ModuleType, **classes: type) -> None:
        super().__init__(f"simdist.{of.__name__}", of.__doc__)
        self._of = of
        vars(self).update(classes)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_of"], name)

    def __dir__(self) -> list[str]:
        return dir(self._of)


models = _Overlay(_keras.models, Model=Model, Sequential=Sequential)
"""`keras.models`, with our classes; what loads, makes or clones a model gives ours by itself."""

distillation = _Overlay(_keras.distillation, Distiller=Distiller)
"""`keras.distillation`, with our class."""

callbacks = _Overlay(
    _keras.callbacks,
    BackupAndRestore=_own_callbacks.BackupAndRestore,
    ModelCheckpoint=_own_callbacks.ModelCheckpoint,
    ProgbarLogger=_own_callbacks.ProgbarLogger,
    SwapEMAWeights=_own_callbacks.SwapEMAWeights,
    TensorBoard=_own_callbacks.TensorBoard,
)
"""`keras.callbacks`, with those of ours that know clusters."""


def __getattr__(name: str) -> Any:
    """Everything else is Keras' own."""
    return getattr(_keras, name)


def __dir__() -> list[str]:
    return sorted({*dir(_keras), *__all__})
