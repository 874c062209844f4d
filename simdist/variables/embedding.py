"""`embedding_lookup`: rows of a variable, by ids.

In a step of a `ParameterServerStrategy` it reads the rows that the batch asks for, each once, and no other. Under synchronous strategies
each replica has the table, and the gradient travels as rows (`simdist.program.sparse_sums`). A lookup by Keras (`keras.layers.Embedding`,
``keras.ops.take`` of a variable along its first axis) is the same.

Taught in lesson 06.
"""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np

from simdist.errors import DenseReadWarning, InvalidArgumentError
from simdist.program.arrays import Array, ArrayLike, HostArray, native
from simdist.program.lookups import lookup, plain_lookup
from simdist.program.narrowing import require_unmasked
from simdist.program.tracing import Tracer, active_tracer
from simdist.variables.handles import AnyVariable
from simdist.variables.optimizer import as_variable
from simdist.variables.row_rule import LARGE_TABLE_BYTES
from simdist.variables.variable import Variable

__all__ = ["embedding_lookup", "follows_lookups", "observed_rows", "table_and_ids", "traced_lookup"]


def embedding_lookup(table: AnyVariable, ids: ArrayLike) -> Array:
    """The rows of a table with these ids, in the order of the ids.

    With parameter servers the bytes that travel are those of the rows, each once, and eight for each of their numbers; so are those of the
    gradient, where `value_and_grad` gives it and an `Optimizer` takes it. That needs ids that follow from the batch and from arguments of
    the call alone, fewer ids than rows, a table that no partitioner has cut along another axis than its first, and no other use of the
    table's value in the step. Otherwise the step reads the whole table. A worker with several devices reads and sends each row once for
    all of them.

    Under synchronous strategies the read is local. Of the gradient the replicas gather a row and eight bytes for each id, where that is
    less than an all-reduce of the table, the gradient goes to the optimizer as it is, and nothing compresses it. Rows with equal ids are
    added in the order of the replicas, then of the ids. A rule that leaves rows without a gradient alone (SGD without momentum, Adagrad)
    changes these rows and no others; so it does with one replica, which has nothing to gather. With another rule the gradient of one
    replica is a table, as in JAX. `CentralStorageStrategy` is the exception: each device reads the whole table and sends a gradient of
    its size, and the update changes all rows.

    Args:
        table: a variable [n, ...], also one in shards.
        ids: whole numbers from 0 to n - 1, of any shape.

    Returns:
        An array [*ids.shape, ...].

    Raises:
        InvalidArgumentError: the table has no rows, the ids are no whole numbers, or one of them is no row: outside of a step at once, in a
            step that reads rows when it runs. (A step that reads the whole table does as ``jax.numpy.take``: such a row is NaN, and a
            negative id counts from the end.)

    Warns:
        DenseReadWarning: the ids depend on a variable, or the table is large and cut along another axis, so each step reads all of it.

    Example:
        >>> import numpy as np
        >>> import simdist as sd
        >>> strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
        >>> with strategy.scope():
        ...     table = sd.Variable(np.arange(14.0).reshape(7, 2), name="table")
        >>> sd.embedding_lookup(table, [6, 0, 4]).tolist()
        [[12.0, 13.0], [0.0, 1.0], [8.0, 9.0]]
    """
    own, numbers = table_and_ids(table, ids)
    tracer = active_tracer()
    if tracer is not None:
        return traced_lookup(tracer, own, jnp.asarray(numbers))
    return observed_rows(own, np.asarray(numbers))


def table_and_ids(table: AnyVariable, ids: ArrayLike) -> tuple[Variable, Array]:
    """The variable behind a table, and ids as an array of whole numbers.

    Raises:
        InvalidArgumentError: the table is a list, or has no rows, or the ids are no whole numbers, have a mask, or are lists of several
            lengths.
    """
    if isinstance(table, (list, tuple)):
        raise InvalidArgumentError(
            "An embedding lookup was given a list, and takes one variable: a variable in shards as it is, embedding_lookup(table, ids), "
            "and not the list of its shards, table.variables."
        )
    own = as_variable(table)
    if not own.shape:
        raise InvalidArgumentError(f"{own.name!r} is a single number, and an embedding lookup takes rows of a table [n, ...].")
    require_unmasked(ids, f"The array of ids for an embedding lookup of {own.name!r}")
    try:
        numbers = ids if isinstance(ids, jax.Array) else native(np.asarray(ids))
    except ValueError as error:
        raise InvalidArgumentError(
            f"An embedding lookup of {own.name!r} was given lists of ids that are no array: {error}. Fill them up to one length, with -1 "
            "for sd.embedding_lookup_sparse; dataset.padded_batch(b, padding_values=-1) does so."
        ) from None
    if not jnp.issubdtype(numbers.dtype, jnp.integer):
        raise InvalidArgumentError(
            f"An embedding lookup of {own.name!r} was given ids of dtype {numbers.dtype}; expected integers. Write ids.astype('int32')."
        )
    return own, numbers


def observed_rows(table: Variable, ids: HostArray) -> HostArray:
    """The rows of a table, outside of a step.

    Raises:
        InvalidArgumentError: an id is no row of the table.
    """
    if ids.size and (ids.min() < 0 or ids.max() >= table.shape[0]):
        wrong = ids.min() if ids.min() < 0 else ids.max()
        raise InvalidArgumentError(
            f"An embedding lookup of {table.name!r} asks for row {wrong}; the table has {table.shape[0]} rows, 0 to {table.shape[0] - 1}."
        )
    return np.asarray(table.placement.store.observe(table))[ids]


def traced_lookup(tracer: Tracer, table: Variable, ids: jax.Array, padded: bool = False) -> jax.Array:
    """The rows of a table at this point of a step; where ids are padded, zeros for those below 0."""
    value = table.traced_value(tracer)
    if not follows_lookups(tracer, table) or (padded and not table.moves_rows):
        note_whole_table(tracer, table, ids.size)
        return plain_lookup(value, ids, padded)
    if not ids.ndim:  # a number that stands in the step is no variable of its jaxpr; a list of it is
        return traced_lookup(tracer, table, jnp.reshape(ids, (1,)), padded)[0]
    own = table.ref()
    tracer.lookup_counts[own] = tracer.lookup_counts.get(own, 0) + ids.size
    return lookup(value, ids, tracer.tables.setdefault(own, len(tracer.tables)), padded)


def _warn_of_columns(table: Variable, num_ids: int) -> None:
    """Say that a large table of parameter servers is read as a whole because of its partitioner."""
    strategy, axis = table.placement.store.strategy, table.placement.axis
    if axis and strategy is not None and strategy.moves_rows and num_ids < table.shape[0] and table.aval.size_bytes >= LARGE_TABLE_BYTES:
        warnings.warn(
            f"The variable_partitioner has cut {table.name!r} along axis {axis}, so no server has a whole row of it: each step that looks "
            "up rows reads the whole table, and sends its whole gradient. Cut it along its first axis, as sd.FixedShardsPartitioner does.",
            DenseReadWarning,
            stacklevel=4,
        )


def note_whole_table(tracer: Tracer, table: Variable, num_ids: int) -> None:
    """Note a lookup that is not followed, where the strategy would follow none: it takes dense gradients, or nothing follows lookups."""
    _warn_of_columns(table, num_ids)
    options = tracer.options
    # Launched mains that fall back on dense gradients for one step have their tables apart.
    is_dense = options is not None and not options.gathers_rows and not options.tables_apart
    if not table.moves_rows and (tracer.num_replicas == 1 or is_dense):
        tracer.whole_tables.add(table.ref())


def follows_lookups(tracer: Tracer, table: Variable) -> bool:
    """Whether a step notes which rows of a table it looks up: because it reads those alone, or because their gradients travel alone."""
    options = tracer.options
    if tracer.num_replicas == 1 and (table.moves_rows or (options is not None and options.reads_rows)):
        return table.moves_rows
    if options is None or not options.gathers_rows:
        return False
    return table.moves_rows or ((tracer.in_replica or tracer.num_replicas == 1) and bool(table.shape))
