"""Errors of JAX and Keras about an argument that is no number, in the words of the call that was given it.

A function of a step may be given a text, by which its Python decides, or a dataset, over which it loops. Where it computes with such an
argument, JAX speaks of functions inside of JAX and of jit. Only an error that names the argument's type is explained; any other stays.
Where its Python needs a number while it is traced, or calls a collective of JAX, JAX's error points at the line; a note says what a step
can do there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import jax
import numpy as np

from simdist.errors import InvalidArgumentError, SimdistError
from simdist.program.arrays import is_array
from simdist.program.narrowing import NO_NUMBERS

__all__ = ["explained", "explaining_tracing", "require_of_dataset"]

FOREIGN = ("jax", "keras")  # whose code refuses the argument
NO_NUMBERS_YET = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
MOST_SHOWN = 40  # characters of a text
ADVICE = (
    "There use jax.numpy or keras.ops in place of numpy and float(), jax.numpy.where or jax.lax.cond in place of if, and jax.debug.print "
    "in place of print. What Python decides by a number belongs between steps, where variable.numpy() has it."
)

UNBOUND_AXIS = "unbound axis name"
COLLECTIVES = (
    "Replicas have no axis name. In place of jax.lax.psum(value, axis), pmean and axis_index, a step has "
    'context = sd.get_replica_context(): context.all_reduce("SUM", value) or "MEAN", context.all_gather(value, axis=0), and '
    "context.replica_id_in_sync_group. (Gradients are added up by optimizer.apply_gradients.)"
)


def explained(error: Exception, caller: str, args: Sequence[object], kwargs: Mapping[str, object]) -> InvalidArgumentError | None:
    """The error that says which argument of a call is no number, if that is what JAX or Keras complain about.

    Args:
        error: what the function of the call has raised.
        caller: who was given the arguments, as the beginning of a sentence.
        args: the arguments, in any structure.
        kwargs: those with names.

    Example:
        >>> explained(ValueError("mine"), "strategy.run", ("a",), {}) is None
        True
    """
    if isinstance(error, SimdistError) or not isinstance(error, (TypeError, ValueError)) or _raised_in(error) not in FOREIGN:
        return None
    for name, given in (("args", list(args)), ("kwargs", dict(kwargs))):
        for path, leaf in jax.tree_util.tree_flatten_with_path(given)[0]:
            if _is_no_number(leaf) and _speaks_of(error, leaf):
                return InvalidArgumentError(f"{caller}: {name}{jax.tree_util.keystr(path)} is {_described(leaf)}")
    return None


def require_of_dataset(error: StopIteration | RuntimeError, caller: str) -> None:
    """Let a `StopIteration` pass that an iterator of a dataset has raised: only of that one it says that the dataset has run out.

    Of one that is raised in a generator, ``list(next(iterator) for _ in range(2))``, Python makes a `RuntimeError`.

    Args:
        error: what the function of a step or of a closure has raised.
        caller: the function, as the beginning of a sentence.

    Raises:
        RuntimeError: it was given, and says anything else.
        InvalidArgumentError: a `StopIteration` comes from anything else.
    """
    if isinstance(error, RuntimeError):
        if not (isinstance(error.__cause__, StopIteration) and _is_of_dataset(error.__cause__)):
            raise error
    elif not _is_of_dataset(error):
        raise InvalidArgumentError(
            f"{caller} raised {error!r}, which is not the end of a dataset: a next() in it, of an iterator of your own, has found nothing "
            "more. Give next() a value to return then, or catch the StopIteration in the function. (A next() of a generator over the "
            "dataset, as in next(f(x) for x in iterator), finds nothing where the dataset has run out.)"
        ) from error


@contextmanager
def explaining_tracing(step: str) -> Iterator[None]:
    """Add a note to JAX's errors about values that are not known while a step is traced, and about collectives over a named axis."""
    try:
        try:
            yield
        except AttributeError as error:
            # Where a layer of Keras raises an error of JAX, Keras makes another one of its class from a text, and JAX fails there.
            if not isinstance(error.__context__, NO_NUMBERS_YET):
                raise
            raise error.__context__ from None
    except NO_NUMBERS_YET as error:
        if not any(note.endswith(ADVICE) for note in getattr(error, "__notes__", ())):  # of a step inside of this one
            error.add_note(f"The Python of the step {step} runs before there are numbers, to be written down. {ADVICE}")
        raise
    except NameError as error:
        if UNBOUND_AXIS in str(error) and COLLECTIVES not in getattr(error, "__notes__", ()):
            error.add_note(COLLECTIVES)
        raise


def _is_of_dataset(error: StopIteration) -> bool:
    """Whether an iterator of a dataset has raised it."""
    return _raised_in(error) == __name__.split(".")[0]


def _raised_in(error: Exception) -> str:
    """The package whose code has raised the error."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return "" if last is None else str(last.tb_frame.f_globals.get("__name__")).split(".")[0]


def _is_no_number(leaf: object) -> bool:
    if is_array(leaf):
        return leaf.dtype.name.startswith(NO_NUMBERS)
    return not isinstance(leaf, (bool, int, float, complex, np.generic))


def _speaks_of(error: Exception, leaf: object) -> bool:
    """Whether the message names the type of the argument, or the argument in one of the phrases that JAX has for what is no array."""
    phrases = [repr(type(leaf)), f"Value '{leaf}' with dtype"]
    if isinstance(leaf, str):
        phrases += [f"with base 10: {leaf!r}", f"idx={leaf!r}"]
    return any(phrase in str(error) for phrase in phrases)


def _described(leaf: object) -> str:
    computes = "and the function computes with it"
    if isinstance(leaf, (str, bytes)):
        text = repr(leaf if len(leaf) <= MOST_SHOWN else leaf[:MOST_SHOWN])
        return (
            f"the text {text}, {computes}; a step computes with numbers. Make a number of it first, dataset.map(lookup), or only decide by "
            'it in Python, as in `if mode == "train":`.'
        )
    if is_array(leaf):
        return f"an array of {leaf.dtype.name}, {computes}; a step computes with numbers. Make numbers of it first, dataset.map(lookup)."
    kind = type(leaf).__name__
    kind = f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"
    if isinstance(leaf, Iterable):
        return (
            f"{kind}, {computes}. Give one batch of it: iterator = iter(strategy.distribute_dataset(dataset)), and "
            "strategy.run(fn, args=(next(iterator),))."
        )
    return f"{kind}, {computes}; a step computes with numbers. Give arrays or numbers."
