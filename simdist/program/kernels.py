"""Kernels: compiled computations, one for each structure. The same step, written in ten mains, is one kernel.

A kernel is a jaxpr, found again by its text and its constants (what a step closes over is an input). All plans of the ledger
run the same kernels, each compiled apart from what stands around it, which is why their bits agree (class E1). The process keeps
the kernels that were used last, from one cluster to the next; those that a living program runs are found too, so there are
never two of one structure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import jax
import numpy as np
from jax.extend import core as jex_core
from jax.stages import Wrapped

from simdist.caches import shared
from simdist.process_state import kept_state
from simdist.program.apart import compiled_apart, inlined
from simdist.program.arrays import Array
from simdist.program.convolutions import with_axes_in_order
from simdist.program.dot_algorithms import for_cpus
from simdist.program.jaxprs import aval_in, constants_in, frozen, primitives_in, variables_in
from simdist.program.python_calls import compiled_form, python_called
from simdist.program.traces import jaxpr_of
from simdist.program.values import Aval

__all__ = ["KEPT_KERNELS", "Kernel", "compiler_options", "kernel_of"]

# Kernels that the process keeps; each takes about two megabytes once it has been compiled. A model makes three to ten of them.
KEPT_KERNELS = 128
OPTIONS: dict[str, dict[str, str | bool]] = {
    "cpu": {"xla_allow_excess_precision": False, "xla_cpu_experimental_ynn_fusion_type": ""},
    "gpu": {"xla_gpu_deterministic_ops": True},
}


def compiler_options(backend: str | None = None) -> dict[str, str | bool]:
    """The compiler options of every kernel.

    On CPUs, XLA may not leave out a rounding to half precision, and writes the code of sums and products itself. The library that it
    would call for some (YNNPACK) has to be given whole arrays that XLA's own code never stores: a mean of three looked-up rows takes
    four times as long with it.

    On GPUs, XLA may not add up rows with equal ids in the order in which they happen to come, nor choose algorithms by trying how fast
    they are: both give other last bits from run to run.

    Args:
        backend: for which platform of JAX; None: the default.
    """
    return dict(OPTIONS.get(backend or jax.default_backend(), {}))


_kernels = shared("compiled kernels", KEPT_KERNELS, finds_living=True)


class Kernel:
    """A pure function of arrays, compiled once.

    Attributes:
        name: what it is, for people ("step", "apply sgd").
        in_avals, out_avals: shapes and dtypes of the flat inputs and outputs.
        closed: what it computes, as a jaxpr for those who look at it.
        used: for each input, whether the result depends on it.
        is_python: whether it is Python of the user (`simdist.program.python_calls`), and is not compiled.
        runs_at_once: whether it is called once for each time that a step computes it, in order: it is Python, or does more than to give
            its results (``jax.debug.print``, ``io_callback``).
        calls_back: whether it calls Python of the user where it is computed (``jax.pure_callback``).
        function: its operations, to be compiled together with those around them.
        apart: the same inside of a larger computation, and compiled as if it stood alone (see `compiled_apart`).
    """

    def __init__(self, name: str, closed: jex_core.ClosedJaxpr) -> None:
        self.name = name
        self.closed = inlined(closed)
        self.in_avals = tuple(aval_in(v) for v in closed.jaxpr.invars)
        self.out_avals = tuple(aval_in(v) for v in closed.jaxpr.outvars)
        jaxpr = self.closed.jaxpr
        read = {v for eqn in jaxpr.eqns for v in variables_in(eqn.invars)} | set(variables_in(jaxpr.outvars))
        self.used = tuple(v in read for v in jaxpr.invars)
        self._python = python_called(closed.jaxpr)
        self.is_python = bool(self._python)
        self.runs_at_once = self.is_python or bool(closed.effects)
        self.calls_back = self.is_python or any("callback" in primitive for primitive in primitives_in(jaxpr))
        self.function: Callable[..., Sequence[jax.Array]] = jex_core.jaxpr_as_fun(_as_compiled(closed, jax.default_backend()))
        self.apart = self.function if self.is_python else compiled_apart(self.function)
        self.jitted = jax.jit(self.function, compiler_options=compiler_options())

    def __call__(self, *arrays: Array) -> tuple[jax.Array, ...]:
        return tuple(self.function(*arrays) if self.is_python else self.jitted(*arrays))

    @cached_property
    def on_cpus(self) -> Wrapped:
        """What is compiled where JAX computes on CPUs: the costs are those of this program on all platforms."""
        if jax.default_backend() == "cpu":
            return self.jitted  # JAX keeps what it lowers, and need not lower it again for the first call
        return jax.jit(jex_core.jaxpr_as_fun(_as_compiled(self.closed, "cpu")))

    @cached_property
    def priced(self) -> Kernel:
        """The kernel whose price it has: itself, or what was traced of the Python that it calls."""
        return Kernel(self.name, compiled_form(self.closed)) if self.is_python else self

    def __repr__(self) -> str:
        return f"Kernel({self.name!r}, {len(self.in_avals)} inputs, {len(self.out_avals)} outputs)"


def _as_compiled(closed: jex_core.ClosedJaxpr, platform: str) -> jex_core.ClosedJaxpr:
    """The jaxpr as XLA is given it: in forms that the platform has, and that are as fast and have the same bits wherever they stand."""
    ordered = with_axes_in_order(closed)
    return for_cpus(ordered) if platform == "cpu" else ordered


def kernel_of(name: str, function: Callable[..., Sequence[jax.Array]], in_avals: Sequence[Aval]) -> Kernel:
    """The kernel of a function of flat arrays; functions of equal structure give the same object.

    Args:
        name: what it is, for people.
        function: takes arrays of `in_avals`, returns a sequence of arrays.
        in_avals: shapes and dtypes of the inputs.
    """
    specs = [jax.ShapeDtypeStruct(aval.shape, np.dtype(aval.dtype) if aval.dtype != "bfloat16" else "bfloat16") for aval in in_avals]
    with kept_state():
        closed = frozen(jaxpr_of(lambda *arrays: tuple(function(*arrays)), *specs))
    if python_called(closed.jaxpr) or closed.effects or any("callback" in primitive for primitive in primitives_in(closed.jaxpr)):
        return Kernel(name, closed)  # its text does not say which Python it calls; and it goes when its program goes
    constants = [np.asarray(const) for const in constants_in(closed)]
    key = (name, str(closed.jaxpr), tuple([(str(const.dtype), const.shape, const.tobytes()) for const in constants]))
    return _kernels.get(key, lambda: Kernel(name, closed))
