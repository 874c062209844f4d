"""How often the bodies of loops run.

A scan says how often. A while loop runs as often as its values tell it to; where it counts from a number to a number by a
number, that can be read from its jaxpr. Elsewhere the schedule would depend on values, and the user must declare how long
the step takes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal

from simdist.errors import FailedPreconditionError
from simdist.program.arrays import Array, HostArray
from simdist.program.jaxprs import Atom, aval_in, variables_in

__all__ = ["bodies_seen", "trips_of"]

# A loop that adds up numbers that are no integers is followed turn by turn, for so many turns.
MOST_FOLLOWED = 1_000_000


def trips_of(name: str, jaxpr: Jaxpr, eqn: JaxprEqn) -> int:
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


def bodies_seen(eqn: JaxprEqn) -> int:
    """How often the body of a loop stands in the program that XLA gets, and so in what XLA counts.

    JAX writes several turns of a scan into one, if it is asked to unroll, and those that are left over after it. A scan without turns is
    gone.

    Example:
        >>> import jax
        >>> scan = jax.make_jaxpr(lambda x: jax.lax.scan(lambda x, _: (x * x, None), x, length=16, unroll=5))(2.0).jaxpr.eqns[0]
        >>> bodies_seen(scan)
        6
    """
    if eqn.primitive.name != "scan":
        return 1
    length, unroll = eqn.params["length"], int(eqn.params["unroll"])
    turns, left = divmod(length, unroll)
    return left + (unroll if turns else 0)


def _counted(jaxpr: Jaxpr, eqn: JaxprEqn) -> int | None:
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
    if added is None or added.primitive.name != "add" or counter not in variables_in(added.invars):
        return None
    step = _number(body, added.invars[1] if added.invars[0] is counter else added.invars[0], ())
    start = _number(jaxpr, eqn.invars[first + position], ())
    if start is None or stop is None or step is None:
        return None
    if not start < stop:
        return 0
    return _turns_of_integers(start, stop, step) if np.issubdtype(start.dtype, np.integer) else _turns_of_floats(start, stop, step)


def _turns_of_integers(start: HostArray, stop: HostArray, step: HostArray) -> int | None:
    """Turns until a counter has come to a number; None where it never does, or runs over the end of its type before."""
    first, last, added = int(start), int(stop), int(step)
    if added <= 0:
        return None
    turns = -((first - last) // added)
    return turns if first + turns * added <= np.iinfo(start.dtype).max else None


def _turns_of_floats(start: HostArray, stop: HostArray, step: HostArray) -> int | None:
    """Turns until a counter has come to a number, each sum rounded to its type; None where it has not after `MOST_FOLLOWED`."""
    if not step > 0:
        return None
    most = (float(stop) - float(start)) / float(step) * 2 + 2  # a sum that moves on at all moves on by more than half a step
    values = np.full(int(most) if most < MOST_FOLLOWED else MOST_FOLLOWED, step, start.dtype)
    values[0] = start
    with np.errstate(over="ignore", invalid="ignore"):
        below = np.add.accumulate(values) < stop
    return None if below[-1] else int(np.argmin(below))


def _made_by(jaxpr: Jaxpr, var: Atom) -> JaxprEqn | None:
    return next((eqn for eqn in jaxpr.eqns if var in eqn.outvars), None)


def _number(jaxpr: Jaxpr, var: Atom, constants: Sequence[Array]) -> HostArray | None:
    """The number of a variable in its dtype, where the jaxpr says it."""
    dtype = np.dtype(aval_in(var).dtype)
    if isinstance(var, Literal):
        return np.asarray(var.val, dtype)
    made = _made_by(jaxpr, var)
    if made is not None and made.primitive.name in ("convert_element_type", "copy") and isinstance(made.invars[0], Literal):
        return np.asarray(made.invars[0].val, aval_in(made.invars[0]).dtype).astype(dtype)
    named = dict(zip(jaxpr.constvars, constants, strict=False))
    return np.asarray(named[var]) if var in named else None
