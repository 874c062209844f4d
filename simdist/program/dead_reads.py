"""Reads that nothing of a step uses: no message travels for them.

A step may read a variable and leave the value alone: a stateless step of Keras is given all variables, and gives back many of them as they
are.
"""

from __future__ import annotations

from collections.abc import Sequence

from jax.extend import core as jex_core
from jax.extend.core import JaxprEqn, Var

from simdist.program.collective import COLLECTIVE
from simdist.program.jaxprs import variables_in
from simdist.program.markers import Marker, ReadMarker

__all__ = ["without_dead_reads"]


def without_dead_reads(closed: jex_core.ClosedJaxpr, markers: Sequence[Marker], marker_name: str) -> jex_core.ClosedJaxpr:
    """The jaxpr of a step without the reads whose value goes nowhere, and what is computed of them; all other markers stay.

    Args:
        closed: with its markers.
        markers: what each stands for, by number.
        marker_name: of the primitive of markers.
    """
    live: set[Var] = set(variables_in(closed.jaxpr.outvars))
    kept: list[JaxprEqn] = []
    for eqn in reversed(closed.jaxpr.eqns):
        is_read = eqn.primitive.name == marker_name and isinstance(markers[eqn.params["number"]], ReadMarker)
        has_effect = not is_read and (eqn.primitive.name in (marker_name, COLLECTIVE) or bool(eqn.effects))
        if has_effect or any(var in live for var in eqn.outvars):
            kept.append(eqn)
            live.update(variables_in(eqn.invars))
    if len(kept) == len(closed.jaxpr.eqns):
        return closed
    return jex_core.ClosedJaxpr(closed.jaxpr.replace(eqns=kept[::-1]), closed.consts)
