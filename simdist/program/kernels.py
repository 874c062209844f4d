"""Kernels: compiled computations, one for each structure. The same step, written in ten mains, is one kernel.

A kernel is a jaxpr, found again by its text and its constants (what a step closes over is an input). All plans of the ledger
run the same kernels, which is why their bits agree (class E1).
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core as jex_core

from simdist.program.values import Aval

__all__ = ["Kernel", "compiler_options", "kernel_of"]


def compiler_options(backend: str | None = None) -> dict[str, str]:
    """The compiler options of every kernel: on CPUs without fusion and without fused multiply-add.

    Which operations XLA puts into one loop, and which product of a*b + c*d becomes one instruction, depends on what stands
    around them; a reduction that is fused with what feeds it adds in another order. So with them one kernel would have
    other last bits in a scan than on its own, and on other processors.

    Args:
        backend: for which platform of JAX; None: the default.
    """
    if (backend or jax.default_backend()) != "cpu":
        return {}
    options = {"xla_disable_hlo_passes": "fusion"}
    return {**options, "xla_cpu_max_isa": "AVX"} if platform.machine() in ("x86_64", "AMD64") else options


_kernels: dict[tuple[Any, ...], Kernel] = {}


class Kernel:
    """A pure function of arrays, compiled once.

    Attributes:
        name: what it is, for people ("step", "apply sgd").
        in_avals, out_avals: shapes and dtypes of the flat inputs and outputs.
        used: for each input, whether the result depends on it.
    """

    def __init__(self, name: str, closed: jex_core.ClosedJaxpr) -> None:
        self.name = name
        self.closed = closed
        self.in_avals = tuple(Aval(tuple(v.aval.shape), str(v.aval.dtype)) for v in closed.jaxpr.invars)
        self.out_avals = tuple(Aval(tuple(v.aval.shape), str(v.aval.dtype)) for v in closed.jaxpr.outvars)
        read = {v for eqn in closed.jaxpr.eqns for v in eqn.invars if not isinstance(v, jex_core.Literal)}
        read |= {v for v in closed.jaxpr.outvars if not isinstance(v, jex_core.Literal)}
        self.used = tuple(v in read for v in closed.jaxpr.invars)
        self.function: Callable[..., Any] = jex_core.jaxpr_as_fun(closed)
        self.jitted = jax.jit(self.function, compiler_options=compiler_options())

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        return tuple(self.jitted(*arrays))

    def __repr__(self) -> str:
        return f"Kernel({self.name!r}, {len(self.in_avals)} inputs, {len(self.out_avals)} outputs)"


def kernel_of(name: str, function: Callable[..., Sequence[Any]], in_avals: Sequence[Aval]) -> Kernel:
    """The kernel of a function of flat arrays; functions of equal structure give the same object.

    Args:
        name: what it is, for people.
        function: takes arrays of `in_avals`, returns a sequence of arrays.
        in_avals: shapes and dtypes of the inputs.
    """
    specs = [jax.ShapeDtypeStruct(aval.shape, np.dtype(aval.dtype) if aval.dtype != "bfloat16" else "bfloat16") for aval in in_avals]
    closed = jax.make_jaxpr(lambda *arrays: tuple(function(*arrays)))(*specs)
    key = (name, str(closed.jaxpr), tuple((str(np.asarray(const).dtype), np.asarray(const).tobytes()) for const in closed.consts))
    kernel = _kernels.get(key)
    if kernel is None:
        kernel = _kernels[key] = Kernel(name, closed)
    return kernel
