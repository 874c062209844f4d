"""Arithmetic of variables: operators, comparisons, indexing, iteration.

Each takes the present value and goes on with that: ``v + 1`` and ``v == w`` are arrays, element by element, as in TensorFlow. A variable
is hashed by identity, so it may be a key of a dict or a member of a set; to look one up in a list, compare ``v.ref()``. What changes a
variable is a method that says so, so ``v += 1`` is refused.

Taught in lesson 00.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from types import EllipsisType
from typing import Any, Never, TypeAlias, TypeGuard

import jax
import jax._src.core as jax_core
import jax._src.dtypes as jax_dtypes
import jax.core
import jax.numpy as jnp
import jax.typing
import numpy as np

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.arrays import Array, supports_jax_array
from simdist.program.operations import VariableHandle

__all__ = ["Arithmetic", "Index", "checked_index"]

Operator = Callable[[Any, Any], Any]
# What stands beside a variable: numbers, arrays, other variables.
Operand: TypeAlias = "jax.typing.ArrayLike | Arithmetic"
Unary = Callable[[jax.Array], jax.Array]
# An index as numpy takes it: numbers, slices, None, ... and arrays of them, or several of these, one for each axis.
IndexPart: TypeAlias = "Operand | list[int] | slice | EllipsisType | None"
Index: TypeAlias = "IndexPart | tuple[IndexPart, ...]"


def _plain(operand: Operand) -> jax.typing.ArrayLike:
    return operand.value if isinstance(operand, Arithmetic) else operand


def _operand(variable: Arithmetic, operand: Operand | list[Any]) -> jax.typing.ArrayLike:
    """What stands beside a variable, as JAX takes it; a list of numbers has the variable's width, as one number has."""
    if not isinstance(operand, list):
        return _plain(operand)
    array = jnp.asarray(operand)
    is_float = jnp.issubdtype(variable.dtype, jnp.floating) and not jnp.issubdtype(array.dtype, jnp.complexfloating)
    return array.astype(variable.dtype) if is_float else array


def _binary(operation: Operator) -> Callable[[Arithmetic, Operand], jax.Array]:
    return lambda self, other: operation(jnp.asarray(self.value), _operand(self, other))


def _reflected(operation: Operator) -> Callable[[Arithmetic, Operand], jax.Array]:
    return lambda self, other: operation(_operand(self, other), jnp.asarray(self.value))


def _unary(operation: Unary) -> Callable[[Arithmetic], jax.Array]:
    return lambda self: operation(jnp.asarray(self.value))


def _refused(sign: str, method: str) -> Callable[[Arithmetic, Operand], Never]:
    def refuse(self: Arithmetic, other: Operand) -> Never:
        raise FailedPreconditionError(
            f"`{self.name} {sign}= ...` would put an array in the place of the variable. Write {method} to change the variable, or "
            f"`value = {self.name} {sign} ...` for an array."
        )

    return refuse


class Arithmetic(VariableHandle):
    """Operators of `Variable`.

    Example:
        >>> import simdist as sd
        >>> v = sd.Variable([1.0, 2.0, 4.0])
        >>> (2 / v).tolist(), (v == 2.0).tolist(), float(v[-1]), len(v)
        ([2.0, 1.0, 0.5], [False, True, False], 4.0, 3)
    """

    __array_priority__ = 100  # numpy's arrays leave operators with a variable to the variable, which also works in a step

    @property
    def value(self) -> Array:
        """The present value."""
        raise NotImplementedError

    __add__, __radd__ = _binary(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _binary(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv), _reflected(operator.truediv)
    __floordiv__, __rfloordiv__ = _binary(operator.floordiv), _reflected(operator.floordiv)
    __mod__, __rmod__ = _binary(operator.mod), _reflected(operator.mod)
    __pow__, __rpow__ = _binary(operator.pow), _reflected(operator.pow)
    __matmul__, __rmatmul__ = _binary(operator.matmul), _reflected(operator.matmul)
    __and__, __rand__ = _binary(operator.and_), _reflected(operator.and_)
    __or__, __ror__ = _binary(operator.or_), _reflected(operator.or_)
    __xor__, __rxor__ = _binary(operator.xor), _reflected(operator.xor)
    __lt__, __gt__ = _binary(operator.lt), _binary(operator.gt)
    __le__, __ge__ = _binary(operator.le), _binary(operator.ge)
    __neg__, __pos__, __abs__, __invert__ = map(_unary, (operator.neg, operator.pos, operator.abs, operator.invert))

    __iadd__, __isub__ = _refused("+", "assign_add"), _refused("-", "assign_sub")
    __imul__, __itruediv__ = _refused("*", "assign"), _refused("/", "assign")
    __ifloordiv__, __imod__, __ipow__ = _refused("//", "assign"), _refused("%", "assign"), _refused("**", "assign")
    __imatmul__, __iand__ = _refused("@", "assign"), _refused("&", "assign")
    __ior__, __ixor__ = _refused("|", "assign"), _refused("^", "assign")

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Any:
        """Which elements are equal; False for what cannot be compared with an array."""
        return self._equal(other)

    def __ne__(self, other: object) -> Any:
        equal = self._equal(other)
        return equal if equal is NotImplemented else not equal if isinstance(equal, bool) else jnp.logical_not(equal)

    def _equal(self, other: object) -> Any:
        if not _is_array_like(other):
            return NotImplemented
        array = jnp.asarray(_plain(other))
        try:
            jnp.broadcast_shapes(self.shape, array.shape)
        except ValueError:
            return False
        return jnp.equal(jnp.asarray(self.value), array)

    def read_value(self) -> Array:
        """The present value, as `value`."""
        return self.value

    def __getitem__(self, index: Index) -> jax.Array:
        return jnp.asarray(self.value)[checked_index(self, index)]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"{self.name} is a scalar and has no len()")
        return self.shape[0]

    def __iter__(self) -> Iterator[jax.Array]:
        rows = range(len(self))
        value = jnp.asarray(self.value)
        return (value[row] for row in rows)

    def __contains__(self, item: Operand) -> bool:
        return bool(jnp.any(jnp.equal(jnp.asarray(self.value), _plain(item))))

    def __bool__(self) -> bool:
        return bool(jnp.asarray(self.value))

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __complex__(self) -> complex:
        return complex(self.value)


def _is_array_like(value: object) -> TypeGuard[Operand]:
    known = (bool, int, float, complex, list, tuple, np.ndarray, np.generic, jax.Array, VariableHandle)
    return isinstance(value, known) or supports_jax_array(value)


def _index_part(part: Any) -> Any:
    """A part of an index: a list as an array, of a variable its value, a bool of numpy as one of Python, which is all that JAX takes."""
    if isinstance(part, Arithmetic):
        return part.value
    if not isinstance(part, (list, np.bool_)):
        return part
    try:
        return bool(part) if isinstance(part, np.bool_) else np.asarray(part)
    except ValueError as error:
        raise IndexError(f"a list in an index is no array ({error}); give lists of one length") from None


def checked_index(variable: VariableHandle, index: Index) -> tuple[Any, ...]:
    """The parts of an index: JAX takes the nearest element for one that is not there; numpy raises, and so do we where the index is known.

    Raises:
        IndexError: the index is out of range, or no index.
    """
    given = index if isinstance(index, tuple) else (index,)
    parts = tuple(map(_index_part, given))

    def known(part: Any) -> Any:
        if not isinstance(part, jax.core.Tracer):
            return np.asarray(part) if isinstance(part, jax.Array) else part
        return np.zeros(part.shape, int)

    if any(isinstance(part, jax.core.Tracer) and part.dtype == bool for part in parts):
        return parts  # a mask that is not known yet; JAX says what can be done with it
    try:
        np.broadcast_to(False, variable.shape)[tuple(map(known, parts))]
    except (IndexError, OverflowError) as error:  # the latter of a number that is beyond every array
        raise IndexError(f"{variable.name}: {error}") from None
    return parts


def _no_aval(variable: Arithmetic) -> Never:
    raise InvalidArgumentError(
        f"{variable.name} itself was given to a function of JAX, which takes arrays. Give its value: {variable.name}.value"
    )


# JAX asks what a compiled function is given for its type; its own message would not know what a variable is.
for table in (jax_core.pytype_aval_mappings, jax_dtypes.canonicalize_value_handlers):
    table[Arithmetic] = _no_aval
