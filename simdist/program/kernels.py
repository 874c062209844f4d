"""Kernels: compiled computations, one for each structure. The same step, written in ten mains, is one kernel.

A kernel is a jaxpr, found again by its text and its constants (what a step closes over is an input). All plans of the ledger
run the same kernels, which is why their bits agree (class E1). The process keeps the kernels that were used last, from one
cluster to the next; those that a living program runs are found too, so there are never two of one structure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import jax
import numpy as np
from jax.extend import core as jex_core
from jax.stages import Wrapped

from simdist.caches import shared
from simdist.program.arrays import Array
from simdist.program.fusion import NOTHING, fuses_exactly, guarded, only_adds
from simdist.program.jaxprs import aval_in, frozen, variables_in
from simdist.program.python_calls import calls_python, compiled_form
from simdist.program.values import Aval

__all__ = ["KEPT_KERNELS", "Kernel", "compiler_options", "kernel_of"]

# Kernels that the process keeps; each takes about two megabytes once it has been compiled. A model makes three to ten of them.
KEPT_KERNELS = 128


def compiler_options(backend: str | None = None, fusion: bool = False) -> dict[str, str]:
    """The compiler options of every kernel: on CPUs without fusion.

    Which operations XLA puts into one loop, and which product of a*b + c*d becomes one instruction there, depends on what stands
    around them; a reduction that is fused with what feeds it adds in another order. So with fusion one kernel would have
    other last bits in a scan than on its own, and on other processors.

    Args:
        backend: for which platform of JAX; None: the default.
        fusion: whether operations may be put into one loop all the same (see `simdist.program.fusion`).
    """
    on_cpu = (backend or jax.default_backend()) == "cpu"
    return {} if fusion or not on_cpu else {"xla_disable_hlo_passes": "fusion"}


_kernels = shared("compiled kernels", KEPT_KERNELS, finds_living=True)


def _fused(closed: jex_core.ClosedJaxpr) -> Wrapped | None:
    """What is called in place of a kernel where its operations may be put into one loop if its products are kept apart."""
    if not compiler_options() or not fuses_exactly(closed.jaxpr):
        return None
    return jax.jit(guarded(closed), compiler_options=compiler_options(fusion=True))


class Kernel:
    """A pure function of arrays, compiled once.

    Attributes:
        name: what it is, for people ("step", "apply sgd").
        in_avals, out_avals: shapes and dtypes of the flat inputs and outputs.
        used: for each input, whether the result depends on it.
        runs_python: whether it calls Python of the user each time (`simdist.program.python_calls`), and is not compiled.
    """

    def __init__(self, name: str, closed: jex_core.ClosedJaxpr) -> None:
        self.name = name
        self.closed = closed
        self.in_avals = tuple(aval_in(v) for v in closed.jaxpr.invars)
        self.out_avals = tuple(aval_in(v) for v in closed.jaxpr.outvars)
        read = {v for eqn in closed.jaxpr.eqns for v in variables_in(eqn.invars)} | set(variables_in(closed.jaxpr.outvars))
        self.used = tuple(v in read for v in closed.jaxpr.invars)
        self.runs_python = calls_python(closed.jaxpr)
        self.function: Callable[..., Sequence[jax.Array]] = jex_core.jaxpr_as_fun(closed)
        adds = only_adds(closed.jaxpr)
        self.jitted = jax.jit(self.function, compiler_options=compiler_options(fusion=adds))
        self._fused = None if adds else _fused(closed)

    def __call__(self, *arrays: Array) -> tuple[jax.Array, ...]:
        if self._fused is not None:
            return tuple(self._fused(NOTHING, *arrays))
        return tuple(self.function(*arrays) if self.runs_python else self.jitted(*arrays))

    @property
    def is_fused(self) -> bool:
        """Whether its operations are put into one loop and its products kept apart (`simdist.program.fusion.fuses_exactly`)."""
        return self._fused is not None

    @cached_property
    def priced(self) -> Kernel:
        """The kernel whose price it has: itself, or what was traced of the Python that it calls."""
        return Kernel(self.name, compiled_form(self.closed)) if self.runs_python else self

    def __repr__(self) -> str:
        return f"Kernel({self.name!r}, {len(self.in_avals)} inputs, {len(self.out_avals)} outputs)"


def kernel_of(name: str, function: Callable[..., Sequence[jax.Array]], in_avals: Sequence[Aval]) -> Kernel:
    """The kernel of a function of flat arrays; functions of equal structure give the same object.

    Args:
        name: what it is, for people.
        function: takes arrays of `in_avals`, returns a sequence of arrays.
        in_avals: shapes and dtypes of the inputs.
    """
    specs = [jax.ShapeDtypeStruct(aval.shape, np.dtype(aval.dtype) if aval.dtype != "bfloat16" else "bfloat16") for aval in in_avals]
    closed = frozen(jax.make_jaxpr(lambda *arrays: tuple(function(*arrays)))(*specs))
    if calls_python(closed.jaxpr):
        return Kernel(name, closed)  # no other step has the same, and it goes when its program goes
    key = (name, str(closed.jaxpr), tuple((str(np.asarray(const).dtype), np.asarray(const).tobytes()) for const in closed.consts))
    return _kernels.get(key, lambda: Kernel(name, closed))
