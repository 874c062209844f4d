"""`StaticHashTable`: an immutable table from keys to values, as in ``tf.lookup``.

Taught in lesson 06.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from simdist.arguments import shown
from simdist.data.leaves import Array, as_leaf, is_small_float
from simdist.data.row_wise import RowWise
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.lookup.keys import IntegerKeys, TextKeys
from simdist.lookup.values import integers_of, is_row_block, is_traced, text_of
from simdist.lookup.worker_copies import TableCopies
from simdist.program.narrowing import kept_dtype, narrowed
from simdist.variables.placement_record import PlacementRecord

__all__ = ["KeyValueTensorInitializer", "StaticHashTable"]

TEXT = "string"
DEFAULTS = {"U": "US", "b": "b", "i": "iu", "u": "iu", "f": "iuf", "c": "iufc", "V": "iuf"}  # kinds of default values, by kind of values


class KeyValueTensorInitializer:
    """Keys and values of a table.

    Args:
        keys: strings or integers, of shape [n].
        values: strings, numbers or booleans, of shape [n].
        key_dtype: "string" or an integer dtype; None: as the keys are.
        value_dtype: None: as the values are.
        name: accepted for tf.lookup's sake.

    Raises:
        InvalidArgumentError: no keys at all, or not one value for each key.
        TypeError: keys that are neither strings nor integers, or that are not of their dtype.

    Example:
        >>> import simdist as sd
        >>> table = sd.StaticHashTable(sd.KeyValueTensorInitializer(["x", "y"], [1, 2]), default_value=-1)
        >>> table.lookup(["x", "q", "y"])
        array([ 1, -1,  2], dtype=int32)
    """

    def __init__(self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None) -> None:
        self.name = name
        self.values = values_of(values, value_dtype, "values")
        given = np.asarray(keys)
        if given.dtype.kind in "US" and key_dtype is None:
            _require_text(keys)
        is_text = given.dtype.kind in "USOT" if key_dtype is None else _dtype_name(key_dtype) == TEXT
        self.keys = text_of(keys, "utf-8", "the table's keys") if is_text else np.asarray(integers_of(keys, "the table's keys"))
        if self.keys.ndim != 1 or self.values.shape != self.keys.shape:
            raise InvalidArgumentError(
                f"the table's keys have shape {self.keys.shape} and its values {self.values.shape}; expected one value for each key"
            )
        if not self.keys.size:
            raise InvalidArgumentError("the table was given no keys; expected at least one")

    @property
    def key_dtype(self) -> str:
        """ "string", or "int64"."""
        return TEXT if self.keys.dtype.kind == "U" else "int64"

    @property
    def value_dtype(self) -> str:
        """ "string", or the name of a dtype of numbers."""
        return TEXT if self.values.dtype.kind == "U" else self.values.dtype.name


def _require_text(keys: Any) -> None:
    """Refuse numbers among texts, of which NumPy would make texts."""
    number = next((key for key in np.asarray(keys, object).ravel().tolist() if not isinstance(key, (str, bytes))), None)
    if number is not None:
        raise TypeError(f"the table's keys are texts and numbers, as {number!r}; expected keys of one type. Write text as '{number}'.")


def values_of(values: Any, dtype: Any, what: str) -> Array:
    """Values of a table as an array of a dtype that datasets carry."""
    if dtype is not None and _dtype_name(dtype) != TEXT:
        return narrowed(np.asarray(values), kept_dtype(np.dtype(dtype)), f"the table's {what}")
    array = np.asarray(values)
    return text_of(values, "utf-8", f"the table's {what}") if array.dtype.kind in "USOT" or dtype is not None else as_leaf(array, what)


def _dtype_name(dtype: Any) -> str:
    if dtype is str or dtype is bytes or (isinstance(dtype, str) and dtype == TEXT):
        return TEXT
    try:
        known = np.dtype(dtype)
    except (TypeError, ValueError):
        raise TypeError(f"a dtype of the table is {shown(dtype)}; expected a dtype such as 'int64', or 'string'") from None
    if known.kind in "UST":
        return TEXT
    if known.kind not in "iufbc" and not is_small_float(known):
        raise TypeError(f"a dtype of the table is {shown(dtype)}; expected one of numbers or booleans, or 'string'")
    return known.name


class StaticHashTable(RowWise):
    """A table that is filled when it is made, and never changes.

    Look up in the map of a dataset, where a function that only looks up, picks, compares and computes is called once for all rows; where
    keys are integers and values numbers, also in a step.

    Args:
        initializer: a `KeyValueTensorInitializer`, a dict, or a pair (keys, values).
        default_value: of keys that are not in the table.
        name: for messages and placements.

    Raises:
        FailedPreconditionError: a key twice, with different values.
        TypeError: an initializer or a default value of another kind.

    Example:
        >>> import simdist as sd
        >>> table = sd.StaticHashTable({"x": 1, "y": 2}, default_value=-1)
        >>> table[["x", "q"]].tolist(), table.size()
        ([1, -1], 2)
    """

    def __init__(self, initializer: Any, default_value: Any, name: str | None = None) -> None:
        given = _initializer_of(initializer)
        self.name = "StaticHashTable" if name is None else str(name)
        self.key_dtype, self.value_dtype = given.key_dtype, given.value_dtype
        entries: dict[Any, Any] = {}
        for key, value in zip(given.keys.tolist(), given.values.tolist(), strict=True):
            known = entries.setdefault(key, value)
            if known != value and not (known != known and value != value):  # NaN differs from itself
                raise FailedPreconditionError(
                    f"{self.name} was given key {key!r} with the values {entries[key]!r} and {value!r}; expected one value for each key"
                )
        default = self._checked_default(default_value, given)
        self._default = default.item()
        self._keys = TextKeys(list(entries)) if self.key_dtype == TEXT else IntegerKeys(list(entries))
        # The default stands last, where the position of an absent key, `keys.ABSENT` = -1, finds it.
        self._values = np.array([*entries.values(), self._default], dtype=str if self.value_dtype == TEXT else given.values.dtype)
        self._values.flags.writeable = False
        facts = repr((self._keys.keys, self._values.tolist(), self.key_dtype, self.value_dtype))
        self._state = ("table", hashlib.blake2b(facts.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest())
        self._copies = TableCopies(self.name, lambda: (len(entries), self._keys.size_bytes + self._values[:-1].nbytes))
        self._copies.filled()

    def _checked_default(self, default_value: Any, given: KeyValueTensorInitializer) -> Array:
        array = np.asarray(default_value)
        fits = array.dtype.kind in DEFAULTS[given.values.dtype.kind]
        if array.ndim or not fits:
            raise TypeError(
                f"default_value is {default_value!r}; expected one value of dtype {given.value_dtype}, as the table's values have"
            )
        return values_of(default_value, given.value_dtype, "default value")

    @property
    def state(self) -> Hashable:
        return self._state

    @property
    def default_value(self) -> Any:
        """The value of keys that are not in the table."""
        return self._default

    def size(self) -> int:
        """The number of keys."""
        return len(self._keys)

    def export(self) -> tuple[Array, Array]:
        """All keys and all values, in the order of the initializer."""
        keys = np.array(self._keys.keys, dtype=str if self.key_dtype == TEXT else kept_dtype("int64"))
        return keys, self._values[:-1]

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The value of each key.

        Args:
            keys: strings or integers, of any shape.
            name: accepted for tf.lookup's sake.

        Returns:
            A numpy array of that shape; in a step, a value of the step.

        Raises:
            TypeError: keys of another kind than those of the table: integers of a table of strings, or strings of one of integers; or other
                things than these.
            InvalidArgumentError: a table whose values are strings is asked in a step.
        """
        if is_row_block(keys):
            self.note_call()
            return keys.given_to(self)
        found = self.of_rows(keys)[0]
        self.note_call()
        return found

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)

    __call__ = lookup

    def of_rows(self, rows: Any) -> tuple[Any, None]:
        what = f"{self.name} (keys of dtype {self.key_dtype})"
        values = text_of(rows, "utf-8", what) if self.key_dtype == TEXT else integers_of(rows, what)
        if not is_traced(values):
            return self._values[self._keys.positions(values)], None
        if self.value_dtype == TEXT:
            raise InvalidArgumentError(
                f"{self.name} has strings for values and was called in a step, which computes with numbers; look up in the dataset's map"
            )
        return jnp.asarray(self._values)[self._keys.positions(values)], None

    def placements(self) -> list[PlacementRecord]:
        """Which tasks hold a copy of the table: of one made in the scope of parameter servers, every worker that is up; else none."""
        return self._copies.placements()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.size()} keys, {self.key_dtype} to {self.value_dtype})"


def _initializer_of(given: Any) -> KeyValueTensorInitializer:
    if isinstance(given, KeyValueTensorInitializer):
        return given
    if isinstance(given, Mapping):
        return KeyValueTensorInitializer(list(given.keys()), list(given.values()))
    if isinstance(given, (tuple, list)) and len(given) == 2:
        return KeyValueTensorInitializer(*given)
    raise TypeError(f"initializer is a {type(given).__name__}; expected sd.KeyValueTensorInitializer(keys, values), a dict, or a pair")
