"""Feature columns: which features of a batch a canned Estimator takes, and as what; the names are those of ``tf.feature_column``.

| function | takes | gives |
|---|---|---|
| `numeric_column` | numbers | floats |
| `bucketized_column` | a numeric column | the interval of each number: a category, or floats |
| `categorical_column_with_identity`, `..._with_vocabulary_list`, `..._with_hash_bucket` | integers or words | categories |
| `indicator_column` | a column of categories | their counts |
| `embedding_column` | a column of categories | a vector for each, which is learned |
"""

from typing import NoReturn

from simdist.data.absent_names import refusal
from simdist.feature_column.absent_names import OF_FEATURE_COLUMN
from simdist.feature_column.categorical import (
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    categorical_column_with_vocabulary_list,
)
from simdist.feature_column.dense import embedding_column, indicator_column
from simdist.feature_column.numeric import bucketized_column, numeric_column

__all__ = [
    "bucketized_column",
    "categorical_column_with_hash_bucket",
    "categorical_column_with_identity",
    "categorical_column_with_vocabulary_list",
    "embedding_column",
    "indicator_column",
    "numeric_column",
]


def __getattr__(name: str) -> NoReturn:
    raise refusal("module 'simdist.feature_column'", name, OF_FEATURE_COLUMN.get(name))
