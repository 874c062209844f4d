"""The networks of the canned Estimators: a linear model and a deep one, on prepared feature columns.

Variables have the names that they have in TensorFlow: ``linear/linear_model/<column>/weights``, ``dnn/hiddenlayer_0/kernel``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from simdist import keras
from simdist.estimator.canned.options import DeepOptions
from simdist.feature_column.base import CategoricalColumn, DenseColumn, FeatureColumn
from simdist.feature_column.dense import EmbeddingColumn
from simdist.program.lookups import zeros_for_padding
from simdist.variables.sparse_embedding import combined_rows

__all__ = ["deep_logits", "linear_logits"]

Prepared = Mapping[str, jax.Array]


def linear_logits(columns: Sequence[FeatureColumn], features: Prepared, units: int, combiner: str) -> jax.Array:
    """Logits of shape (b, units): weights for each float, and for each category; they begin as zeros.

    Args:
        columns: floats, or categories.
        features: as the columns have prepared them, by their names.
        units: logits of a row.
        combiner: of several categories of a row.
    """
    logits = []
    with keras.name_scope("linear"), keras.name_scope("linear_model"):
        for column in columns:
            value = features[column.name]
            with keras.name_scope(_scope(column)):
                if isinstance(column, CategoricalColumn):
                    weights = _weights("weights", (column.num_buckets, units), "zeros")
                    logits.append(_combined(weights, value, combiner))
                else:
                    logits.append(_dense(column, value) @ _weights("weights", (_width(column), units), "zeros"))
        bias = _weights("bias_weights", (units,), "zeros")
    return sum(logits) + bias


def deep_logits(columns: Sequence[FeatureColumn], features: Prepared, units: int, options: DeepOptions, training: bool) -> jax.Array:
    """Logits of shape (b, units) of hidden layers, each with its activation, dropout and batch normalization.

    Args:
        columns: floats.
        features: as the columns have prepared them, by their names.
        units: logits of a row.
        options: of the hidden layers.
        training: whether layers behave as in training.
    """
    with keras.name_scope("dnn"):
        with keras.name_scope("input_layer"):
            net = jnp.concatenate([_floats(column, features[column.name]) for column in columns], axis=-1)
        for number, size in enumerate(options.hidden_units):
            net = keras.layers.Dense(size, activation=options.activation_fn, name=f"hiddenlayer_{number}")(net)
            if options.dropout is not None:
                net = keras.layers.Dropout(options.dropout)(net, training=training)
            if options.batch_norm:
                net = keras.layers.BatchNormalization(momentum=0.999, name=f"batchnorm_{number}")(net, training=training)
        return keras.layers.Dense(units, name="logits")(net)


def _floats(column: FeatureColumn, value: jax.Array) -> jax.Array:
    with keras.name_scope(_scope(column)):
        return _dense(column, value)


def _dense(column: FeatureColumn, value: jax.Array) -> jax.Array:
    """The floats of a column: as they are prepared, counts of intervals, or vectors from a table."""
    if isinstance(column, EmbeddingColumn):
        deviation = 1.0 / math.sqrt(column.dimension)
        initializer = column.initializer or keras.initializers.TruncatedNormal(stddev=deviation)
        shape = (column.categorical_column.num_buckets, column.dimension)
        table = _weights("embedding_weights", shape, keras.initializers.get(initializer), column.trainable)
        return _combined(table, value, column.combiner)
    if isinstance(column, CategoricalColumn):
        return jax.nn.one_hot(value, column.num_buckets).sum(axis=1)
    return value


def _width(column: FeatureColumn) -> int:
    return column.width if isinstance(column, DenseColumn) else 0


def _weights(name: str, shape: tuple[int, ...], initializer: Any, trainable: bool = True) -> Any:
    return keras.Variable(initializer, shape=shape, dtype="float32", name=name, trainable=trainable)


def _combined(table: Any, ids: jax.Array, combiner: str) -> jax.Array:
    """Rows of a table, combined for each row of ids (b, k); of ids of -1, nothing."""
    rows = keras.ops.take(table, jnp.maximum(ids, 0), axis=0)
    return combined_rows(zeros_for_padding(rows, ids), ids, None, combiner)


def _scope(column: FeatureColumn) -> str:
    return column.name.replace("/", "_")
