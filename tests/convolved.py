"""A convolution of small random arrays, in several orders of its axes, and its derivatives."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax

__all__ = ["LAYOUTS", "convolved"]

LAYOUTS = {"channels last": ("NHWC", "HWIO", "NHWC"), "channels first": ("NCHW", "OIHW", "NCHW"), "odd": ("HNCW", "IHOW", "CWNH")}


def convolved(layout: tuple[str, str, str], **options: Any) -> Any:
    def shape(letters: str, sizes: dict[str, int]) -> tuple[int, ...]:
        return tuple(sizes[letter] for letter in letters)

    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape(layout[0], {"N": 3, "H": 7, "W": 6, "C": 4})).astype(np.float32)
    inputs = 4 // options.get("feature_group_count", 1)
    kernel = rng.standard_normal(shape(layout[1], {"H": 3, "W": 2, "I": inputs, "O": 8})).astype(np.float32)

    def run(x: Any, kernel: Any) -> Any:
        return (
            lax.conv_general_dilated(x, kernel, **{"window_strides": (1, 1), "padding": "SAME", **options}, dimension_numbers=layout) ** 2
        ).sum()

    return jax.value_and_grad(run, argnums=(0, 1)), (x, kernel)
