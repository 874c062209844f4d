"""Which user functions may be remembered: those that give the same answer when they are asked twice.

A pure function is applied once per source row, and its results become the rows of a new table. Whether it is pure is
found out by calling it twice on a few rows spread over the table; an error counts as an answer, because the row that
fails may be one that no element ever visits. A function that draws random numbers answers differently and is then
called at every visit. So is one that changes what it reaches (counts, remembers, appends), and the calls that found it out are undone.

Few rows do not show what happens seldom. So the code is looked at, too: a function that reaches a random generator, a clock, an
iterator or an open file (reach.py) counts as one that is not pure. What remains is a guess; `pure=False` is the cure.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from simdist.arguments import name_of_function
from simdist.data.leaves import Array, Element, ElementFunction, Leaves, Scalar, Structure, flatten, is_text, unflatten
from simdist.data.reach import Reach
from simdist.data.table import Table
from simdist.errors import InvalidArgumentError

__all__ = ["Answer", "answers", "ask", "call_on", "is_equal_row", "is_pure", "name_of", "probed_rows", "truth"]

PROBES = 8

Answer = tuple[Leaves, Structure] | Exception  # leaves and structure of a result, or what was raised instead


def call_on(fn: ElementFunction, structure: Structure, leaves: Sequence[Array | Scalar]) -> Element:
    """Call `fn` on an element as tf.data does: a tuple is unpacked into arguments, all else is one argument, and so is a namedtuple."""
    element = unflatten(structure, leaves)
    return fn(*element) if type(element) is tuple else fn(element)


def ask(fn: ElementFunction, table: Table, row: int) -> Answer:
    """What `fn` answers on one row."""
    try:
        return flatten(call_on(fn, table.structure, table.row(row)), f"the result of {name_of(fn)}")
    except Exception as error:
        return error


def name_of(fn: ElementFunction) -> str:
    """How messages call a function of the user."""
    return f"the mapped function {bare_name(fn)!r}"


def bare_name(fn: ElementFunction) -> str:
    return name_of_function(fn, type(fn).__name__)


def is_same(first: Answer, second: Answer) -> bool:
    """True if two answers agree to the last bit."""
    if isinstance(first, Exception) or isinstance(second, Exception):
        return type(first) is type(second)
    return first[1] == second[1] and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(first[0], second[0], strict=True)
    )


def is_equal_row(first: tuple[Leaves, Structure], second: tuple[Leaves, Structure]) -> bool:
    """True if two rows agree to the last bit; the texts of one may have room for more letters."""
    return first[1] == second[1] and all(is_equal_leaf(a, b) for a, b in zip(first[0], second[0], strict=True))


def is_equal_leaf(a: Array, b: Array) -> bool:
    if is_text(a.dtype.name) and a.dtype.kind == b.dtype.kind:
        return bool(np.array_equal(a, b))
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def probed_rows(table: Table) -> list[int]:
    """Up to eight rows, spread evenly over the table, the first one included."""
    count = min(PROBES, table.num_rows)
    return [index * table.num_rows // count for index in range(count)]


def answers(fn: ElementFunction, table: Table, reach: Reach) -> dict[int, Answer] | None:
    """What `fn` answers on the probed rows, or None if it is not pure: it contradicts itself, or changes what it reaches.

    Then the calls leave nothing behind: what they have changed is as it was.
    """
    found: dict[int, Answer] = {}
    agrees = True
    for row in probed_rows(table):
        found[row] = ask(fn, table, row)
        agrees = is_same(found[row], ask(fn, table, row))
        if not agrees:
            break
    return found if not reach.put_back() and agrees else None


def is_pure(given: dict[int, Answer], known: Callable[[int], Answer]) -> bool:
    """True if the known answers agree with the given ones, row by row."""
    return all(is_same(answer, known(row)) for row, answer in given.items())


def truth(answer: Answer, fn: ElementFunction) -> bool:
    """The answer of a predicate as a bool.

    Raises:
        InvalidArgumentError: it is not one boolean.
    """
    if isinstance(answer, Exception):
        raise answer
    leaves, _ = answer
    if len(leaves) != 1 or leaves[0].shape != () or leaves[0].dtype.kind not in "biu":
        shapes = [f"{leaf.dtype.name}{list(leaf.shape)}" for leaf in leaves]
        raise InvalidArgumentError(
            f"a filter's function must return one boolean; {bare_name(fn)!r} returned {shapes}; reduce it with np.all or np.any"
        )
    return bool(leaves[0])
