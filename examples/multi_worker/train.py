"""Synchronous training on several workers with Keras: the same program on every worker, which finds its place in TF_CONFIG.

    python -m simdist run examples/multi_worker/train.py --cluster examples/multi_worker/cluster.toml

After each epoch the chief (worker:0) saves the weights. A worker that dies ends the step of all others; all mains start again, load the
weights of the last whole epoch, and go on from there. In the end the chief saves the model, and every other worker saves it elsewhere
and deletes it, as in TensorFlow's tutorial: saving is a step that all of them take.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import simdist as sd
from simdist import keras

BATCH_PER_WORKER = 64
ROWS = 1536


def digits(global_batch_size: int) -> sd.Dataset:
    """Images of digits (8 x 8 pixels from 0 to 1) and their labels; each worker gets its part of them."""
    images, labels = load_digits(return_X_y=True)
    pixels, numbers = (images[:ROWS] / 16.0).astype(np.float32).reshape(-1, 8, 8, 1), labels[:ROWS].astype(np.int32)
    return sd.Dataset.from_tensor_slices((pixels, numbers)).shuffle(ROWS, seed=0).repeat().batch(global_batch_size)


def build_and_compile_cnn_model() -> keras.Model:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(8, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(32, activation="relu"),
            layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(learning_rate=0.1), loss=loss, metrics=["accuracy"])
    return model


def is_chief(resolver: Any) -> bool:
    """Without a job of the name chief, the first worker is the chief."""
    return resolver.task_type == "chief" or (
        resolver.task_type == "worker" and resolver.task_id == 0 and "chief" not in resolver.cluster_spec()
    )


class SaveEachEpoch(keras.callbacks.Callback):
    """Save the weights of each epoch, on the chief."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.model.save_weights(self.directory / f"epoch-{epoch:03d}.weights.h5")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12, help="steps of an epoch")
    parser.add_argument("--directory", type=Path, default=Path("demo/multi_worker"), help="where weights and the model are saved")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)

    strategy = sd.MultiWorkerMirroredStrategy()
    chief = is_chief(strategy.cluster_resolver)
    with strategy.scope():
        model = build_and_compile_cnn_model()
    saved = sorted(options.directory.glob("epoch-*.weights.h5"))
    if saved:
        print(f"goes on with epoch {len(saved) + 1}")
        model.load_weights(saved[-1])
    dataset = digits(BATCH_PER_WORKER * strategy.num_replicas_in_sync)
    callbacks = [SaveEachEpoch(options.directory)] if chief else []
    history = model.fit(
        dataset,
        epochs=options.epochs,
        initial_epoch=len(saved),
        steps_per_epoch=options.steps,
        callbacks=callbacks,
        verbose=2 if chief else 0,
    )
    print(f"loss of the last epoch: {history.history['loss'][-1]:.4f}")
    if chief:
        model.save(options.directory / "model.keras")
        for path in options.directory.glob("epoch-*.weights.h5"):
            path.unlink()
    else:
        with tempfile.TemporaryDirectory() as elsewhere:
            model.save(Path(elsewhere) / "model.keras")


if __name__ == "__main__":
    main()
