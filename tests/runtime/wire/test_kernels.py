"""Kernels as bytes: they compute the same bits, and know nothing of where they came from."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import simdist as sd
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval
from simdist.runtime.wire import decode_kernel, encode, encode_kernel

F = Aval((33, 17), "float32")


def loss(x: Any, w: Any) -> Any:
    return jnp.mean(jnp.tanh(x @ w.T) ** 2) + jnp.sum(jax.nn.log_softmax(x * w))


KERNELS: dict[str, tuple[Callable[..., Any], tuple[Aval, ...]]] = {
    "gradient with products and sums": (lambda x, w: [x * w + x, *jax.value_and_grad(loss)(x, w)], (F, F)),
    "random numbers": (lambda key: [jax.random.normal(jax.random.wrap_key_data(key), (50,))], (Aval((2,), "uint32"),)),
    "a loop": (lambda x: [jax.lax.scan(lambda c, row: (c * 1.1 + row, c), x[0], x)[1]], (F,)),
    "bfloat16": (lambda x: [x * x + 1, x.astype(jnp.float32).sum()], (Aval((64,), "bfloat16"),)),
    "no inputs": (lambda: [jnp.arange(3) * 2], ()),
    "an input that is not used": (lambda x, w: [w + 1], (F, F)),
    "linear algebra": (lambda x: [jnp.linalg.qr(x)[1], jax.lax.top_k(x, 3)[1]], (F,)),
}


def given_to(avals: tuple[Aval, ...]) -> list[Any]:
    random = np.random.default_rng(3)
    return [random.normal(size=aval.shape, scale=9).astype(jnp.dtype(aval.dtype)) for aval in avals]


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_was_sent_computes_the_same_bits(name: str) -> None:
    function, avals = KERNELS[name]
    kernel = kernel_of(name, function, avals)
    found = decode_kernel(encode_kernel(kernel))
    assert found is not kernel and (found.name, found.in_avals, found.out_avals) == (name, kernel.in_avals, kernel.out_avals)
    arrays = given_to(avals)
    for one, other in zip(map(np.asarray, found(*arrays)), map(np.asarray, kernel(*arrays)), strict=True):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def test_constants_of_a_kernel_travel_as_they_were_when_it_was_made() -> None:
    table = np.float32([1, 2])
    data = encode_kernel(kernel_of("table", lambda x: [x + table], [Aval((2,), "float32")]))
    table += 100
    assert np.asarray(decode_kernel(data)(np.float32([0, 0]))[0]).tolist() == [1, 2]


def test_a_kernel_is_not_kept_alive_by_its_message() -> None:
    kernel = kernel_of("short-lived", lambda x: [x * 3], [F])
    sent = decode_kernel(encode_kernel(kernel))
    assert decode_kernel(encode_kernel(kernel)) is sent
    gone = weakref.ref(sent)
    del sent
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "function",
    [lambda x: [jax.pure_callback(np.sin, x, x)], lambda x: [jax.debug.print("{x}", x=x), x][1:]],
    ids=["pure_callback", "debug.print"],
)
def test_a_kernel_that_calls_back_into_python_is_refused(function: Any) -> None:
    with pytest.raises(FailedPreconditionError, match=r"'back' cannot be sent as data: .*Take callbacks into Python .* out of the step"):
        encode_kernel(kernel_of("back", function, [F]))


def test_a_message_that_is_no_kernel_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="was to be a kernel"):
        decode_kernel(encode(("program", "x", b"")))
    with pytest.raises(InvalidArgumentError, match="'x' cannot be read"):
        decode_kernel(encode(("kernel", "x", b"no StableHLO")))


def test_a_kernel_for_other_devices_is_refused() -> None:
    jitted: Any = jax.jit(lambda x: (x + 1,))
    foreign = export.export(jitted, platforms=["tpu"])(jax.ShapeDtypeStruct((2,), np.float32))
    with pytest.raises(FailedPreconditionError, match="was made for tpu, and the devices here are of cpu"):
        decode_kernel(encode(("kernel", "foreign", bytes(foreign.serialize()))))


def test_whoever_lacks_the_package_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    with pytest.raises(ModuleNotFoundError, match=r"isolated=True needs the package flatbuffers: pip install 'simdist\[isolated\]'"):
        sd.Cluster({"worker": 1}, engine="in_process", isolated=True)
