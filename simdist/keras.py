"""Keras 3 on JAX, with models that know strategies.

``from simdist import keras`` gives everything that Keras has; `Model` and `Sequential` are ours.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from simdist.errors import FailedPreconditionError

os.environ.setdefault("KERAS_BACKEND", "jax")
if "keras" in sys.modules and sys.modules["keras"].backend.backend() != "jax":
    raise FailedPreconditionError(
        f"Keras is already loaded with the backend {sys.modules['keras'].backend.backend()!r}. Set KERAS_BACKEND=jax before the first "
        "import of keras, or import simdist.keras first."
    )

import keras as _keras

if _keras.backend.backend() != "jax":
    raise FailedPreconditionError(f"KERAS_BACKEND is {_keras.backend.backend()!r}, but simdist computes with JAX. Set KERAS_BACKEND=jax.")

from simdist.training import adoption, applying, global_denominators, synchronised_moments

adoption.install()
synchronised_moments.install()
applying.install()
global_denominators.install()

from simdist.training.model import Model, Sequential  # noqa: E402

__all__ = ["Model", "Sequential"]


def __getattr__(name: str) -> Any:
    """Everything else is Keras' own."""
    return getattr(_keras, name)


def __dir__() -> list[str]:
    return sorted({*dir(_keras), *__all__})
