"""Kernels as bytes: the StableHLO that JAX compiles, as `jax.export` writes it.

Both sides compile it with the same options (`simdist.program.kernels.compiler_options`), so that the bits are the same. A kernel that
calls back into Python is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import jax
import jax.numpy as jnp
from jax import export

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.kernels import Kernel
from simdist.program.traces import jaxpr_of
from simdist.program.values import Aval
from simdist.runtime.wire.codec import decode, encode

__all__ = ["decode_kernel", "digest_of", "encode_kernel"]

# Both live no longer than the kernels themselves.
_encoded: WeakKeyDictionary[Kernel, bytes] = WeakKeyDictionary()
_decoded: WeakValueDictionary[str, Kernel] = WeakValueDictionary()


def digest_of(data: bytes) -> str:
    """By which both sides know a kernel or a program that was sent."""
    return hashlib.sha256(data).hexdigest()


def encode_kernel(kernel: Kernel) -> bytes:
    """The message of a kernel.

    Raises:
        FailedPreconditionError: it cannot leave this process, because it calls back into it or for another reason of `jax.export`.
    """
    known = _encoded.get(kernel)
    if known is None:
        if kernel.is_python:
            raise FailedPreconditionError(
                f"The kernel {kernel.name!r} cannot be sent as data: the step runs eagerly, as Python of this process. Leave "
                "run_eagerly=True out, so that it is compiled, or leave isolated=True out."
            )
        try:
            exported = export.export(kernel.jitted)(*_specs(kernel.in_avals))
            program = bytes(exported.serialize())
        except (NotImplementedError, ValueError) as error:
            raise FailedPreconditionError(
                f"The kernel {kernel.name!r} cannot be sent as data: {error}. Take callbacks into Python (jax.pure_callback, "
                "jax.debug.print) and operations that exist in this process alone out of the step, or leave isolated=True out."
            ) from error
        known = _encoded[kernel] = encode(("kernel", kernel.name, program))
    return known


def decode_kernel(data: bytes) -> Kernel:
    """The kernel of a message; it knows nothing but what is in the message.

    Raises:
        InvalidArgumentError: it is no sound message of a kernel.
        FailedPreconditionError: another version, or a kernel for devices that are not here.
    """
    digest = digest_of(data)
    kernel = _decoded.get(digest)
    if kernel is None:
        kernel = _decoded[digest] = _kernel_from(decode(data))
    return kernel


def _kernel_from(content: Any) -> Kernel:
    match content:
        case ("kernel", str() as name, bytes() as program):
            pass
        case _:
            raise InvalidArgumentError("A message was to be a kernel, but is another one. Send what encode_kernel gives.")
    try:
        exported = export.deserialize(bytearray(program))
    except Exception as error:  # whatever the reader of the format stumbles over
        raise InvalidArgumentError(f"The kernel {name!r} cannot be read: {error}. Use the same version of JAX on both sides.") from error
    here = export.default_export_platform()  # "cuda" or "rocm", where jax.default_backend() says "gpu"
    if here not in exported.platforms:
        raise FailedPreconditionError(
            f"The kernel {name!r} was made for {', '.join(exported.platforms)}, and the devices here are of {here}. "
            "Use the same kind on both sides."
        )
    avals = [Aval(tuple(aval.shape), str(aval.dtype)) for aval in exported.in_avals]
    return Kernel(name, jaxpr_of(lambda *arrays: tuple(exported.call(*arrays)), *_specs(avals)))


def _specs(avals: Sequence[Aval]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(aval.shape, jnp.dtype(aval.dtype)) for aval in avals]
