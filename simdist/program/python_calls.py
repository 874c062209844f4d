"""Python calls: the part of a step that runs as Python, with values, each time it is run.

A kernel is a compiled function. Under ``run_eagerly`` the first kernel of a step is instead one call of the step's own Python, which
stands in its jaxpr as one equation. What a device would have to do for it is the jaxpr of the trace, `PythonCall.traced`: prices are those
of the compiled step.

Invariants:

- Such a kernel is called once for each time that the step computes it, never in a scan, a batch or a trial.
- The equation refers to its Python weakly, and the kernel holds it: JAX keeps the parameters of thousands of equations, and a step knows
  its model, with all variables.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from weakref import ref

import jax
import jax.core
from jax.extend import core as jex_core
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

from simdist.program.arrays import Array
from simdist.program.jaxprs import Atom
from simdist.program.values import Aval

__all__ = ["PythonCall", "bind_python", "compiled_form", "python_called"]

_numbers = itertools.count(1)
_python = jex_core.Primitive("simdist_python")
_python.multiple_results = True


class PythonCall:
    """One piece of Python, as an equation of a jaxpr.

    Args:
        run: gives the results, of arrays that are there.
        outputs: shapes and dtypes of the results.
        traced: the jaxpr that stands for it in prices; it takes the first of the inputs, and gives all results.
    """

    def __init__(
        self, run: Callable[[Sequence[jax.Array]], Sequence[jax.Array]], outputs: Sequence[Aval], traced: jex_core.ClosedJaxpr
    ) -> None:
        self.run = run
        self.outputs = tuple(outputs)
        self.traced = traced
        self.mark = _Mark(self)


class _Mark:
    """A piece of Python, as a parameter of an equation."""

    def __init__(self, call: PythonCall) -> None:
        self.outputs = call.outputs
        self._call = ref(call)
        self._number = next(_numbers)

    @property
    def call(self) -> PythonCall:
        call = self._call()
        assert call is not None  # the kernel whose equation this is holds it
        return call

    def __repr__(self) -> str:
        return f"PythonCall({self._number})"


@_python.def_abstract_eval
def _avals(*_: object, call: _Mark) -> list[jax.core.ShapedArray]:
    return [jax.core.ShapedArray(aval.shape, jax.numpy.dtype(aval.dtype)) for aval in call.outputs]


@_python.def_impl
def _run(*arrays: Array, call: _Mark) -> Sequence[jax.Array]:
    return call.call.run([jax.numpy.asarray(array) for array in arrays])


def bind_python(call: PythonCall, arrays: Sequence[Array]) -> list[jax.Array]:
    """Run a piece of Python, or note it where a jaxpr is being traced."""
    return list(_python.bind(*arrays, call=call.mark))


def python_called(jaxpr: Jaxpr) -> list[PythonCall]:
    """The pieces of Python that are equations of a jaxpr; who runs it later has to hold them."""
    return [eqn.params["call"].call for eqn in jaxpr.eqns if eqn.primitive is _python]


def compiled_form(closed: jex_core.ClosedJaxpr) -> jex_core.ClosedJaxpr:
    """A jaxpr, with what was traced in the place of its pieces of Python."""
    replaced: dict[Var, Atom] = {}
    eqns: list[JaxprEqn] = []
    constvars, consts = list(closed.jaxpr.constvars), list(closed.consts)

    def now(atom: Atom) -> Atom:
        return atom if isinstance(atom, Literal) else replaced.get(atom, atom)

    for eqn in closed.jaxpr.eqns:
        inputs = [now(atom) for atom in eqn.invars]
        if eqn.primitive is not _python:
            eqns.append(eqn.replace(invars=inputs))
            continue
        whole: jex_core.ClosedJaxpr = eqn.params["call"].call.traced
        traced = whole.jaxpr
        constvars += traced.constvars
        consts += whole.consts
        replaced.update(zip(traced.invars, inputs, strict=False))
        eqns += [inner.replace(invars=[now(atom) for atom in inner.invars]) for inner in traced.eqns]
        replaced.update((var, now(atom)) for var, atom in zip(eqn.outvars, traced.outvars, strict=True))
    outputs = [now(atom) for atom in closed.jaxpr.outvars]
    return jex_core.ClosedJaxpr(closed.jaxpr.replace(constvars=constvars, eqns=eqns, outvars=outputs), consts)
