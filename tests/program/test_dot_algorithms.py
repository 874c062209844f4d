"""Products by algorithms that CPUs lack: they are computed here, cost what the product of the matrices costs, and attention trains."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

import simdist as sd
from simdist import keras
from simdist.cost.flops import cost_of
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval

RNG = np.random.default_rng(0)
ALGORITHMS = {
    "F16_F16_F32": "float16",
    "BF16_BF16_F32": "bfloat16",
    "TF32_TF32_F32": "float32",
    "TF32_TF32_F32_X3": "float32",
    "F32_F32_F32": "float32",
}


def product(algorithm: Any, dtype: str, out: str = "float32") -> Any:
    def run(x: Any, y: Any) -> Any:
        return (lax.dot(x, y, precision=algorithm, preferred_element_type=out),)

    return kernel_of("product", run, [Aval((4, 2048), dtype), Aval((2048, 3), dtype)])


@pytest.mark.parametrize("out", ["float32", "float16"])
def test_half_numbers_are_added_in_single_precision(out: str) -> None:
    x, y = (RNG.uniform(0.5, 1.0, shape).astype(np.float16) for shape in ((4, 2048), (2048, 3)))
    (found,) = product("F16_F16_F32", "float16", out)(x, y)
    assert found.dtype == out
    np.testing.assert_allclose(found, x.astype(np.float64) @ y.astype(np.float64), rtol=1e-6 if out == "float32" else 5e-4)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_the_price_is_that_of_the_product_whatever_computes_it(algorithm: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    dtype = ALGORITHMS[algorithm]
    cost, plain = cost_of(product(algorithm, dtype)), cost_of(product(None, dtype))
    assert (cost.flops, cost.bytes_moved) == (plain.flops, plain.bytes_moved)


def attention(policy: str, strategy: Any, **options: Any) -> tuple[list[float], float]:
    keras.utils.set_random_seed(1)
    with strategy.scope():
        inputs = keras.Input((6, 8))
        attended = keras.layers.MultiHeadAttention(2, 4, dtype=policy)(inputs, inputs)
        mean = keras.layers.GlobalAveragePooling1D(dtype="float32")(attended)
        model = keras.Model(inputs, keras.layers.Dense(1, dtype="float32")(mean))
        model.compile(keras.optimizers.SGD(0.01), "mse", **options)
    x = np.random.default_rng(0).random((32, 6, 8)).astype(np.float32)
    return model.fit(x, x.mean((1, 2)), batch_size=8, epochs=2, verbose=0).history["loss"], strategy.cluster.now


@pytest.mark.sample(2)
@pytest.mark.parametrize("options", [{}, {"run_eagerly": True}])
def test_attention_of_half_precision_trains(options: dict[str, Any]) -> None:
    losses, seconds = attention("mixed_float16", sd.MirroredStrategy(devices=2), **options)
    expected, _ = attention("float32", sd.OneDeviceStrategy())
    np.testing.assert_allclose(losses, expected, rtol=5e-3)
    _, of_the_same_bytes = attention("mixed_bfloat16", sd.MirroredStrategy(devices=2), **options)
    assert seconds == of_the_same_bytes
