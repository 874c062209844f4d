"""The data, the model and the training of lesson 00, for the lessons that go on with them.

`dataset_fn` and `make_model` are those of lesson 00, word for word.
"""

from __future__ import annotations

from typing import Any

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import simdist as sd
from simdist import keras

__all__ = ["dataset_fn", "make_model", "train", "x_test", "x_train", "y_test", "y_train"]

images, labels = load_digits(return_X_y=True)
images, labels = (images / 16.0).astype("float32"), labels.astype("int32")
x_train, x_test, y_train, y_test = train_test_split(images, labels, test_size=0.25, random_state=0, stratify=labels)


def dataset_fn(context):
    """Make a worker's dataset: its part of the training images, shuffled, in batches of 32."""
    dataset = sd.Dataset.from_tensor_slices((x_train, y_train))
    dataset = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    return dataset.shuffle(len(x_train), seed=0).repeat().batch(32)


def make_model(strategy):
    """Make and compile the model of 4,810 parameters, with five steps to a closure."""
    with strategy.scope():
        hidden = keras.layers.Dense(64, activation="relu")
        model = keras.Sequential([keras.Input((64,)), hidden, keras.layers.Dense(10)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer = keras.optimizers.Adam(0.003)
        model.compile(optimizer, loss, metrics=["accuracy"], steps_per_execution=5)
    return model


def train(cluster: sd.Cluster, epochs: int = 3, partitioner: Any = None):
    """Train a new model on a cluster with parameter servers, 60 steps an epoch; return the model."""
    model = make_model(sd.ParameterServerStrategy(cluster, partitioner))
    creator = sd.DatasetCreator(dataset_fn)
    model.fit(creator, epochs=epochs, steps_per_epoch=60, verbose=0)
    return model
