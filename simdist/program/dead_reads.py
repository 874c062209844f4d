"""Optional reads that nothing of a step uses: no message travels for them.

A stateless step of Keras is given the values of all variables, and gives back many of them as they are. What else a step reads is read.
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
    """The jaxpr of a step without the optional reads whose value goes nowhere, and what is computed of them; all other markers stay.

    Args:
        closed: with its markers.
        markers: what each stands for, by number.
        marker_name: of the primitive of markers.
    """
    if not any(isinstance(marker, ReadMarker) and marker.optional for marker in markers):
        return closed
    live: set[Var] = set(variables_in(closed.jaxpr.outvars))
    kept: list[JaxprEqn] = []
    for eqn in reversed(closed.jaxpr.eqns):
        marker = markers[eqn.params["number"]] if eqn.primitive.name == marker_name else None
        is_optional = isinstance(marker, ReadMarker) and marker.optional
        has_effect = not is_optional and (marker is not None or eqn.primitive.name == COLLECTIVE or bool(eqn.effects))
        if has_effect or any(var in live for var in eqn.outvars):
            kept.append(eqn)
            live.update(variables_in(eqn.invars))
    if len(kept) == len(closed.jaxpr.eqns):
        return closed
    return jex_core.ClosedJaxpr(closed.jaxpr.replace(eqns=kept[::-1]), closed.consts)
