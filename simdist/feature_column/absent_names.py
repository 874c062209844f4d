"""Feature columns of TensorFlow that are not here: the error of each says what to write."""

from __future__ import annotations

__all__ = ["OF_FEATURE_COLUMN"]

SEQUENCES = "a model_fn with keras.layers.Embedding and a recurrent layer"
SHARED = "a model_fn with one keras.layers.Embedding, called for each feature"
OF_FEATURE_COLUMN = {
    "categorical_column_with_vocabulary_file": "categorical_column_with_vocabulary_list(key, pathlib.Path(file).read_text().splitlines())",
    "crossed_column": "categorical_column_with_hash_bucket(key, size) of a feature that input_fn joins of the others, by dataset.map",
    "make_parse_example_spec": "nothing: input_fn gives arrays by name",
    "sequence_categorical_column_with_hash_bucket": SEQUENCES,
    "sequence_categorical_column_with_identity": SEQUENCES,
    "sequence_categorical_column_with_vocabulary_file": SEQUENCES,
    "sequence_categorical_column_with_vocabulary_list": SEQUENCES,
    "sequence_numeric_column": SEQUENCES,
    "shared_embedding_columns": SHARED,
    "shared_embeddings": SHARED,
    "weighted_categorical_column": "a model_fn that multiplies the vectors of keras.layers.Embedding by their weights",
}
