"""Bytes that a kernel moves between its device and memory, from its jaxpr.

Dots, convolutions and sorts read what they are given and write what they give, each of them, inputs and outputs of the kernel too.
Element-wise operations are fused with those around them, and move nothing between themselves; what they read of the inputs is read once for
all of them, and outputs that nothing else has written are written once. In a loop, operations count each turn. Of a ``cond`` the dearest
branch counts.

Who takes a part of an array moves that part, as XLA counts it (``HloCostAnalysis``). A gather reads its rows (at most the table) and
writes them; a slice of an input reads itself. A scatter reads updates, reads rows and writes them; an update of a slice writes it. They
write into the array that they change, where it is an intermediate value that nothing needs any more; an input is copied first.

Not modelled: caches, the precise fusion that a compiler would choose.
"""

from __future__ import annotations

import math

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Var

from simdist.cost.loops import trips_of
from simdist.cost.memory import ELEMENTWISE
from simdist.program.jaxprs import Atom, inner_jaxprs, size_bytes, substituted, variables_in, widths_of_scan

__all__ = ["bytes_moved"]

HEAVY = ("dot_general", "conv_general_dilated", "sort")
SLICES = ("slice", "dynamic_slice")
CALLS = ("jit", "closed_call", "core_call", "checkpoint", "custom_jvp_call", "custom_vjp_call")
# The same numbers in the same order, or in one in which a dot reads them as well.
ANOTHER_VIEW = ("reshape", "squeeze", "expand_dims", "transpose")


def bytes_moved(name: str, closed: ClosedJaxpr) -> float:
    """Bytes that one call of a kernel moves.

    Args:
        name: of the kernel, for the error.
        closed: what it computes.

    Raises:
        FailedPreconditionError: a while loop whose number of trips depends on values.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> bytes_moved("rows", jax.make_jaxpr(lambda table: table[:8] * 2)(jnp.zeros((1000, 4))))
        256.0
    """
    flat = substituted(closed, _body_of_call).jaxpr
    traffic = _Traffic(name, flat, frozenset(flat.invars), in_loop=False)
    outputs = [atom for atom in flat.outvars if not isinstance(atom, Var) or atom not in traffic.inputs]
    return float(traffic.inside + traffic.read + sum(size_bytes(atom) for atom in outputs if not traffic.has_written(atom)))


def _body_of_call(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """What a call of a jaxpr computes, to stand in its place; None where it is no call."""
    if eqn.primitive.name not in CALLS:
        return None
    for value in eqn.params.values():
        if isinstance(value, Jaxpr) and not value.constvars:
            return ClosedJaxpr(value, ())
        if isinstance(value, ClosedJaxpr):
            return value
    return None


class _Traffic:
    """What the equations of a jaxpr read and write.

    Args:
        name: of the kernel.
        jaxpr: without calls.
        inputs: variables of it that are inputs of the kernel, or parts of them.
        in_loop: whether it is the body of a loop: then gathers and scatters read inputs each turn.

    Attributes:
        inside: bytes that operations move beside what is read of inputs.
        parts: of inputs, bytes that are read; infinite where the whole is.
        written: variables whose writing `inside` contains.
    """

    def __init__(self, name: str, jaxpr: Jaxpr, inputs: frozenset[Var], in_loop: bool) -> None:
        self.name, self.jaxpr, self.inputs, self.in_loop = name, jaxpr, inputs, in_loop
        self.inside = 0.0
        self.parts: dict[Var, float] = {}
        self.written: set[Var] = set()
        self._made_by = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
        self._last_use = {var: number for number, eqn in enumerate(jaxpr.eqns) for var in variables_in(eqn.invars)}
        self._last_use.update((var, len(jaxpr.eqns)) for var in variables_in(jaxpr.outvars))
        for number, eqn in enumerate(jaxpr.eqns):
            self._add(number, eqn)
        for var in variables_in(jaxpr.outvars):
            if var in inputs:
                self._need(var)

    @property
    def read(self) -> float:
        """Bytes that are read of inputs: each once, at most."""
        return sum(min(part, size_bytes(var)) for var, part in self.parts.items())

    def origin(self, atom: Atom) -> Atom:
        """The array that it is another view of; mostly itself."""
        while isinstance(atom, Var) and atom in self._made_by and self._made_by[atom].primitive.name in ANOTHER_VIEW:
            atom = self._made_by[atom].invars[0]
        return atom

    def _is_input(self, atom: Atom) -> bool:
        """Whether it is an input of the kernel, or another view of one."""
        origin = self.origin(atom)
        return isinstance(origin, Var) and origin in self.inputs

    def has_written(self, atom: Atom) -> bool:
        """Whether `inside` contains the writing of an output; not of a number that stands in the jaxpr itself."""
        origin = self.origin(atom)
        return isinstance(origin, Var) and origin in self.written

    def _need(self, atom: Atom, part: float = math.inf) -> None:
        """It is read, or a part of it: if it is of an input, that counts there."""
        var = self.origin(atom)
        if isinstance(var, Var) and var in self.inputs:
            self.parts[var] = self.parts.get(var, 0.0) + part

    def _load(self, atom: Atom, part: float = math.inf) -> None:
        """A gather or scatter reads it."""
        if not self.in_loop and self._is_input(atom):
            self._need(atom, part)
        else:
            self.inside += min(part, size_bytes(atom))

    def _load_indices(self, atom: Atom) -> None:
        """A gather or scatter reads them, or is fused with what makes them."""
        if self._is_fused(self.origin(atom)):
            return
        self._load(atom)

    def _is_fused(self, atom: Atom) -> bool:
        """Whether an element-wise operation makes it, or it is a number."""
        return not isinstance(atom, Var) or (atom in self._made_by and self._made_by[atom].primitive.name in ELEMENTWISE)

    def _store(self, var: Var) -> None:
        """A gather writes it."""
        self.inside += size_bytes(var)
        self.written.add(var)

    def _add(self, number: int, eqn: JaxprEqn) -> None:
        kind = eqn.primitive.name
        if kind == "gather":
            self._load(eqn.invars[0], size_bytes(eqn.outvars[0]))
            self._load_indices(eqn.invars[1])
            self._store(eqn.outvars[0])
        elif kind in SLICES:
            self._need(eqn.invars[0], size_bytes(eqn.outvars[0]))
            for start in eqn.invars[1:]:
                self._need(start)
        elif kind.startswith("scatter"):
            _, indices, updates = eqn.invars
            self._load_indices(indices)
            self._change(number, eqn, updates, 2 * size_bytes(updates))
        elif kind == "dynamic_update_slice":
            for start in eqn.invars[2:]:
                self._need(start)
            self._change(number, eqn, eqn.invars[1], size_bytes(eqn.invars[1]))
        elif kind in HEAVY:
            self.inside += sum(map(size_bytes, (*eqn.invars, *eqn.outvars)))
            self.written.update(eqn.outvars)
        elif kind == "cond":
            self._add_cond(eqn)
        elif kind in ("scan", "while"):
            self._add_loop(eqn)
        elif kind not in ANOTHER_VIEW:
            self._add_other(eqn)

    def _change(self, number: int, eqn: JaxprEqn, updates: Atom, moved: int) -> None:
        """Updates are written into an array; it is written as a whole where it is not there yet, and copied where it is needed still."""
        array, result = eqn.invars[0], eqn.outvars[0]
        self._load(updates)
        self.inside += moved
        self.written.add(result)
        origin = self.origin(array)
        if self._is_input(array) or any(self._last_use.get(var, number) > number for var in variables_in([array, origin])):
            self._load(array)
            self.inside += size_bytes(result)
        elif self._is_fused(origin):
            self.inside += size_bytes(result)

    def _add_cond(self, eqn: JaxprEqn) -> None:
        found = [self._inner(branch.jaxpr, branch.jaxpr.invars, eqn.invars[1:], self.in_loop) for branch in eqn.params["branches"]]
        dearest, outer = max(found, key=lambda pair: pair[0].inside + pair[0].read)
        self._need(eqn.invars[0])
        self._take(dearest, outer, 1)

    def _add_loop(self, eqn: JaxprEqn) -> None:
        """What a body gets the same each turn may be an input of the kernel; what it carries on is an intermediate value."""
        params, trips = eqn.params, trips_of(self.name, self.jaxpr, eqn)
        if eqn.primitive.name == "scan":
            constants, _ = widths_of_scan(eqn)
            bodies = [(params["jaxpr"].jaxpr, 0, constants)]
            rest = eqn.invars[constants:]
        else:
            first, second = params["cond_nconsts"], params["body_nconsts"]
            bodies = [(params["cond_jaxpr"].jaxpr, 0, first), (params["body_jaxpr"].jaxpr, first, second)]
            rest = eqn.invars[first + second :]
        for body, start, count in bodies:
            self._take(*self._inner(body, body.invars[:count], eqn.invars[start : start + count], in_loop=True), trips)
        for atom in rest:
            self._need(atom)

    def _inner(self, body: Jaxpr, taken: list[Var], given: list[Atom], in_loop: bool) -> tuple[_Traffic, dict[Var, Atom]]:
        """The traffic of an inner jaxpr, and what its inputs are here."""
        outer = {var: atom for var, atom in zip(taken, given, strict=True) if self._is_input(atom)}
        return _Traffic(self.name, body, frozenset(outer), in_loop), outer

    def _take(self, inner: _Traffic, outer: dict[Var, Atom], times: int) -> None:
        self.inside += times * inner.inside
        for var, part in inner.parts.items():
            if times:
                self._need(outer[var], times * part)

    def _add_other(self, eqn: JaxprEqn) -> None:
        for atom in eqn.invars:
            self._need(atom)
        for inner in inner_jaxprs(eqn):
            self.inside += _Traffic(self.name, inner, frozenset(), self.in_loop).inside
