"""Checks of arguments, with one message for all of them: numbers, flags and nestings; and what a choice or a function is called."""

from __future__ import annotations

import inspect
import math
import operator
from collections import defaultdict
from collections.abc import ItemsView, Iterable, KeysView, Mapping, Set
from enum import Enum
from numbers import Integral, Real
from typing import Any, Protocol, cast, runtime_checkable

from simdist.errors import InvalidArgumentError, did_you_mean

__all__ = [
    "END_S",
    "flag",
    "float_of",
    "known_word",
    "listed",
    "listed_numbers",
    "name_of_function",
    "number",
    "optional_flag",
    "python_number",
    "require_arguments",
    "require_function",
    "require_shallow",
    "shown",
    "takes",
    "whole_number",
    "word_of",
]

END_S = 1e15
"""Virtual seconds after which nothing can be due; below it, a heartbeat's second still moves a clock of 64 bits."""

MOST_SHOWN = 6  # keys of a dict
MOST_LETTERS = 200  # of one value in a message
MOST_LEVELS = 100
NESTS = (tuple, list, dict)  # of these a structure is made
RUNS_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@runtime_checkable
class _Array(Protocol):
    """An array of whatever library; a number of numpy is one without axes."""

    @property
    def dtype(self) -> object: ...
    @property
    def shape(self) -> object: ...
    def item(self) -> object: ...


def shown(value: object) -> str:
    """What was given, for a message: its repr, cut where it is long; of what has none, its type.

    Example:
        >>> shown("sum"), shown(10**5000)
        ("'sum'", 'an int that is too large to show')
    """
    try:
        text = repr(value)
    except Exception:  # numbers of thousands of digits, lists in lists without end, and what raises in its own repr
        kind = type(value).__name__
        return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} that is too large to show"
    return text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + "..."


def known_word(value: object, name: str, words: Iterable[str], any_case: bool = False) -> str:
    """`value` as one of some words; an array of them, or what has no equality or no order, is none.

    Args:
        value: a word, or a member of an enum, which stands for its value.
        name: of the argument, for the message.
        words: those that are known, as they are returned.
        any_case: whether upper and lower case are the same.

    Raises:
        InvalidArgumentError: it is none of them.

    Example:
        >>> known_word("Ring", "algorithm", ["ring", "tree"], any_case=True)
        'ring'
    """
    word, known = word_of(value), list(words)
    if isinstance(word, str):
        for one in known:
            if one == word or (any_case and one.lower() == word.lower()):
                return one
    near = did_you_mean(word, known) if isinstance(word, str) else ""
    question = near.partition("Known: ")[0]
    raise InvalidArgumentError(f"{name}={shown(value)} is not known; use one of {', '.join(map(repr, known))}. {question}".rstrip())


def listed(values: object, name: str, of: str) -> list[Any]:
    """A list of what a list, a tuple, an array or a generator gives, in its order.

    Args:
        values: of the user; a text, a dict and a set are no lists: the first two are one value, and the last has no order. The keys of
            a dict have one.
        name: of the argument, for the message.
        of: what the list holds, for the message.

    Raises:
        TypeError: it is none.

    Example:
        >>> listed((size for size in [1, 2]), "sizes", "numbers")
        [1, 2]
    """
    has_no_order = isinstance(values, Set) and not isinstance(values, (KeysView, ItemsView))
    if not isinstance(values, (str, bytes, Mapping)) and not has_no_order:
        try:
            return list(cast("Iterable[Any]", values))
        except TypeError:  # a number, also as an array without axes, or another object
            if isinstance(values, Iterable) and not isinstance(values, _Array):
                raise  # from a generator of the user
    hint = "; a set has no order: sort it first" if has_no_order else ""
    raise TypeError(f"{name} is {shown(cast(object, values))}; expected a list of {of}{hint}")


def listed_numbers(values: object, name: str) -> list[Any]:
    """As `listed`, with numbers of Python for those of arrays: also where each of them is an array without axes, as a list of JAX's is.

    Example:
        >>> import numpy as np
        >>> listed_numbers([np.array(0.5), np.float32(2), "x"], "weights")
        [0.5, 2.0, 'x']
    """
    each = listed(values, name, "numbers")
    return [one.item() if isinstance(one, _Array) and one.shape == () else one for one in each]


def _is_boolean(value: object) -> bool:
    """Whether it is True or False, or an array of them."""
    if isinstance(value, (bool, int)):
        return isinstance(value, bool)
    return isinstance(value, _Array) and str(value.dtype) == "bool"


def whole_number(value: Any, name: str, at_least: float = -math.inf, at_most: float = math.inf) -> int:
    """`value` as an int; True and False are no numbers.

    Raises:
        TypeError: it is not an integer.
        InvalidArgumentError: it is too small, or too large.

    Example:
        >>> whole_number(3, "batch_size", 1)
        3
    """
    try:
        if _is_boolean(value):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}; expected an integer; convert it with int() first") from None
    if number < at_least:
        raise InvalidArgumentError(f"{name} is {shown(number)}; expected at least {at_least}")
    if number > at_most:
        raise InvalidArgumentError(f"{name} is {shown(number)}; expected at most {at_most}")
    return number


def flag(value: Any, name: str) -> bool:
    """`value` as a bool; a word or a number is none.

    Raises:
        TypeError: it is neither True nor False.

    Example:
        >>> flag(True, "drop_remainder")
        True
    """
    if not isinstance(value, bool) and (not _is_boolean(value) or value.shape):
        raise TypeError(f"{name} is {shown(value)}; expected True or False")
    return bool(value)


def optional_flag(value: Any, name: str) -> bool | None:
    """`value` as a bool, or None.

    Raises:
        TypeError: it is neither True, False nor None.

    Example:
        >>> optional_flag(None, "pure") is None
        True
    """
    return None if value is None else flag(value, name)


def number(value: Any, name: str, at_least: float = 0.0, below: float = math.inf) -> float:
    """`value` as a finite float.

    Raises:
        TypeError: it is no number.
        InvalidArgumentError: it is too small, too large, infinite or NaN.

    Example:
        >>> number(3, "seconds")
        3.0
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {shown(value)}; expected a number")
    found = float_of(value)
    if not at_least <= found < below:
        limit = "" if below == math.inf else f", and less than {below:g}"
        raise InvalidArgumentError(f"{name}={shown(value)} must be a finite number, {at_least:g} or more{limit}")
    return found


def float_of(value: Real | float) -> float:
    """A number as a float; one that is larger than all floats is infinite.

    Example:
        >>> float_of(3), float_of(-(10**400))
        (3.0, -inf)
    """
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def python_number(value: Any) -> Any:
    """A number of NumPy, or of another library, as one of Python's; anything else as it is.

    What is computed with a number of 32 bits has 32 bits, too: one of them would make the clock inexact.

    Example:
        >>> import numpy as np
        >>> python_number(np.float32(0.5)), python_number(np.int32(3)), python_number("x")
        (0.5, 3, 'x')
    """
    if type(value) in (int, float, bool) or not isinstance(value, Real):
        return value
    return operator.index(value) if isinstance(value, Integral) else float_of(value)


def require_shallow(value: Any, what: str, nests: tuple[type, ...] = NESTS, orders_keys: bool = True) -> None:
    """Refuse a structure that JAX cannot take apart: it is nested too deeply for the interpreter's stack, or a dict has keys without order.

    To be asked before JAX is: its flattening fails half-way there, and the process stays short of stack afterwards.

    Args:
        value: the structure.
        what: what it is, for the message.
        nests: the types of which it is made.
        orders_keys: whether JAX takes it apart, which brings the keys of each dict in order.

    Raises:
        InvalidArgumentError: there are more than a hundred levels, or keys of several types in one dict.
    """
    level, values = [value], _ordered_values if orders_keys else _values
    for _ in range(MOST_LEVELS):
        level = [part for item in level if isinstance(item, nests) for part in (values(item, what) if isinstance(item, dict) else item)]
        if not level:
            return
    raise InvalidArgumentError(f"{what} are nested more than {MOST_LEVELS} levels deep; expected a few levels of tuples and dicts")


def _values(given: Any, what: str) -> Any:
    return given.values()


def _ordered_values(given: Any, what: str) -> Any:
    """The values of a dict, whose keys have an order if it is one of those that JAX takes apart by it."""
    if type(given) in (dict, defaultdict):
        try:
            sorted(given)
        except TypeError as error:
            keys = list(given)[:MOST_SHOWN]
            raise InvalidArgumentError(
                f"{what} have a dict with the keys {keys!r}, which have no order ({error}). Give keys of one type, such as strings."
            ) from None
    return given.values()


def require_arguments(args: Any, kwargs: Any, of: str, orders_keys: bool = True) -> None:
    """Refuse what cannot be the arguments of a call.

    Args:
        args: should be a list or a tuple.
        kwargs: should be a dict, or None.
        of: what is called, for the message.
        orders_keys: as of `require_shallow`.

    Raises:
        InvalidArgumentError: they are not, or as `require_shallow`.

    Example:
        >>> require_arguments((1, 2), None, "strategy.run")
    """
    if not isinstance(args, (list, tuple)):
        raise InvalidArgumentError(f"args must be a list or tuple of the arguments; got {type(args).__name__}. Write args=(x,).")
    if not isinstance(kwargs, (dict, type(None))):
        raise InvalidArgumentError(f"kwargs must be a dict from name to argument; got {type(kwargs).__name__}. Write kwargs={{'x': x}}.")
    if not kwargs:  # as nearly always
        for argument in args:
            if isinstance(argument, NESTS):
                break
        else:
            return
    require_shallow((args, kwargs), f"the arguments of {of}", orders_keys=orders_keys)


def require_function(fn: object, of: str) -> None:
    """Refuse what is no function, and a function of whose lines none runs when it is called.

    Args:
        fn: should be a function.
        of: what takes it, for the message.

    Raises:
        TypeError: it is none, or a generator function, or one under ``async def``.

    Example:
        >>> require_function(len, "strategy.run")
    """
    if not callable(fn):
        raise TypeError(f"{of} takes a function; got {type(fn).__name__}.")
    flags = getattr(getattr(fn, "__code__", None), "co_flags", 0)
    if flags & RUNS_LATER:
        kind = "a generator function (it has a yield)" if flags & inspect.CO_GENERATOR else "a function under async def"
        raise TypeError(
            f"{of} takes a function that runs when it is called; {name_of_function(fn, 'this one')} is {kind}, and none of its lines "
            "would run. Write a function that returns: what a generator yields, as a list."
        )


def takes(fn: object, *args: object, **kwargs: object) -> bool:
    """Whether a function can be called with these arguments, as far as it says so; it is not called.

    Example:
        >>> takes(lambda x: x, 1), takes(lambda: 0, 1), takes(lambda x: x, y=1), takes(7), takes(max, 1)
        (True, False, False, False, True)
    """
    if not callable(fn):
        return False
    try:
        signature = inspect.signature(fn)
    except ValueError:  # of some functions that are not Python nobody can tell
        return True
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def name_of_function(fn: object, otherwise: str) -> str:
    """The name of a function; of what can be called and has none, `otherwise`.

    Example:
        >>> name_of_function(len, "step"), name_of_function(lambda x: x, "step")
        ('len', '<lambda>')
    """
    name = getattr(
        fn, "__name__", None
    )  # no protocol is asked: since Python 3.12 it does not see what a bound method has from its function
    return name if isinstance(name, str) else otherwise


def word_of(choice: object) -> object:
    """The word that stands for a choice: of a member of an enum its value, so that those of other libraries will do.

    Example:
        >>> word_of("sum")
        'sum'
    """
    return choice.value if isinstance(choice, Enum) else choice
