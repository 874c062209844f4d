"""The loops of a jaxpr, and how often their bodies run.

A scan says how often. A while loop runs as often as its values tell it to; where it counts from a number to a number by a
number, that can be read from its jaxpr. Elsewhere the schedule would depend on values, and the user must declare how long
the step takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jax.extend import core as jex_core

from simdist.errors import FailedPreconditionError

__all__ = ["Loop", "inner_jaxprs", "loops", "trips_of"]


@dataclass(frozen=True)
class Loop:
    """The body of a loop (a closed jaxpr), and how often it runs."""

    trips: int
    body: Any


def loops(name: str, jaxpr: Any) -> Iterator[Loop]:
    """The outermost loops of a jaxpr; of a ``cond`` those of the branch that has most of them.

    Args:
        name: of the step, for the error.
        jaxpr: where to look.

    Raises:
        FailedPreconditionError: a while loop whose number of trips depends on values.
    """
    for eqn in jaxpr.eqns:
        kind = eqn.primitive.name
        if kind == "scan":
            yield Loop(eqn.params["length"], eqn.params["jaxpr"])
        elif kind == "while":
            yield Loop(trips_of(name, jaxpr, eqn), eqn.params["body_jaxpr"])
        elif kind == "cond":
            branches = [list(loops(name, branch.jaxpr)) for branch in eqn.params["branches"]]
            yield from max(branches, key=lambda found: sum(loop.trips * len(loop.body.jaxpr.eqns) for loop in found))
        else:
            for inner in inner_jaxprs(eqn):
                yield from loops(name, getattr(inner, "jaxpr", inner))


def inner_jaxprs(eqn: Any) -> Iterator[Any]:
    """The jaxprs among the parameters of an equation."""
    for value in eqn.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(item, "eqns") or hasattr(item, "jaxpr"):
                yield item


def trips_of(name: str, jaxpr: Any, eqn: Any) -> int:
    """How often the inner jaxprs of an equation run."""
    if eqn.primitive.name == "scan":
        return eqn.params["length"]
    if eqn.primitive.name != "while":
        return 1
    trips = _counted(jaxpr, eqn)
    if trips is None:
        raise FailedPreconditionError(
            f"{name} has a while loop whose number of trips depends on values, so how long it takes cannot be known before it runs. "
            "Use lax.scan or lax.fori_loop with fixed bounds, or declare the time of the step: @sd.function(seconds=0.01)."
        )
    return trips


def _counted(jaxpr: Any, eqn: Any) -> int | None:
    """Trips of ``while i < stop: i += step`` where start, stop and step are numbers in the jaxpr; None elsewhere."""
    params = eqn.params
    condition, body = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr
    first = params["cond_nconsts"] + params["body_nconsts"]
    test = _made_by(condition, condition.outvars[0])
    if test is None or test.primitive.name != "lt" or test.invars[0] not in condition.invars:
        return None
    position = condition.invars.index(test.invars[0]) - params["cond_nconsts"]
    stop = _number(condition, test.invars[1], params["cond_jaxpr"].consts)
    added = _made_by(body, body.outvars[position])
    counter = body.invars[params["body_nconsts"] + position]
    if added is None or added.primitive.name != "add" or counter not in [v for v in added.invars if not isinstance(v, jex_core.Literal)]:
        return None
    step = _number(body, added.invars[1] if added.invars[0] is counter else added.invars[0], ())
    start = _number(jaxpr, eqn.invars[first + position], ())
    if start is None or stop is None or not step or step < 0:
        return None
    return max(0, math.ceil((stop - start) / step))


def _made_by(jaxpr: Any, var: Any) -> Any:
    return next((eqn for eqn in jaxpr.eqns if var in eqn.outvars), None)


def _number(jaxpr: Any, var: Any, constants: Any) -> float | None:
    if isinstance(var, jex_core.Literal):
        return float(var.val)
    made = _made_by(jaxpr, var)
    if made is not None and made.primitive.name in ("convert_element_type", "copy") and isinstance(made.invars[0], jex_core.Literal):
        return float(made.invars[0].val)
    named = dict(zip(jaxpr.constvars, constants, strict=False))
    return float(named[var]) if var in named else None
