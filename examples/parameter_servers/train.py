"""Training with parameter servers: one program for all roles, as it would be started on every machine of a real cluster.

    python -m simdist run examples/parameter_servers/train.py --cluster examples/parameter_servers/cluster.toml

Workers and parameter servers start a server and wait. The chief coordinates: it makes variables on the parameter servers, schedules
steps on the workers, and saves its weights after each epoch. The evaluator loads them and says how good they are, beside the training.
The task is that of TensorFlow's tutorial on parameter servers: "yes" if the avenger is among three heroes.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

import simdist as sd
from simdist import keras

VOCABULARY = ["avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman"]
STEPS_PER_EPOCH = 5


def heroes(seed: int, rows: int = 200) -> dict[str, np.ndarray[Any, Any]]:
    """Three heroes in each row, and the label "yes" or "no"."""
    rng = np.random.default_rng(seed)
    words = np.array([rng.choice(VOCABULARY, 3, replace=False) for _ in range(rows)])
    return {"features": words, "label": np.where((words == "avenger").any(axis=1), "yes", "no")[:, None]}


def preprocessing() -> tuple[sd.StringLookup, sd.StringLookup]:
    """From words to row numbers, of features and of labels."""
    labels = sd.StringLookup(vocabulary=["yes", "no"], num_oov_indices=0, mask_token=None)
    return sd.StringLookup(vocabulary=VOCABULARY, mask_token=None), labels


def build_model(rows: int) -> keras.Model:
    """A table of embeddings, large enough to be split, and one layer on top that gives a logit."""
    ids = keras.Input(shape=(3,), dtype="int32", name="features")
    pooled = keras.ops.mean(keras.layers.Embedding(input_dim=rows, output_dim=16384)(ids), axis=1)
    return keras.Model({"features": ids}, keras.layers.Dense(1)(pooled))


def weights_of(directory: Path, epoch: int) -> Path:
    """Where the chief saves the weights of an epoch, and the evaluator finds them."""
    return directory / f"epoch-{epoch}.weights.h5"


def coordinate(resolver: sd.TFConfigClusterResolver, directory: Path, epochs: int) -> None:
    """The chief: schedule closures on the workers, and save after each epoch."""
    partitioner = sd.MinSizePartitioner(min_shard_bytes=256 << 10, max_shards=2)
    strategy = sd.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
    with strategy.scope():
        feature_lookup, label_lookup = preprocessing()
        model = build_model(len(feature_lookup.get_vocabulary()))
        optimizer = sd.Optimizer(keras.optimizers.RMSprop(learning_rate=0.1))
        accuracy = keras.metrics.BinaryAccuracy(threshold=0.0)

    def dataset_fn(context: sd.InputContext) -> sd.Dataset:
        dataset = sd.Dataset.from_tensor_slices(heroes(seed=0))
        dataset = dataset.map(lambda row: ({"features": feature_lookup(row["features"])}, label_lookup(row["label"])))
        return dataset.shuffle(200, seed=context.input_pipeline_id).batch(32).repeat()

    @sd.function
    def step_fn(iterator: Any) -> Any:
        def replica_fn(features: Any, labels: Any) -> Any:
            def compute_loss() -> tuple[Any, Any]:
                logits = model(features, training=True)
                return sd.compute_average_loss(keras.losses.binary_crossentropy(labels, logits, from_logits=True)), logits

            (loss, logits), gradients = sd.value_and_grad(compute_loss, model.trainable_variables, has_aux=True)()
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            accuracy.update_state(labels, logits)
            return loss

        features, labels = next(iterator)
        return strategy.reduce(sd.ReduceOp.SUM, strategy.run(replica_fn, args=(features, labels)), axis=None)

    coordinator = sd.ClusterCoordinator(strategy)
    iterator = iter(coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(dataset_fn)))
    for epoch in range(epochs):
        accuracy.reset_state()
        for _ in range(STEPS_PER_EPOCH):
            coordinator.schedule(step_fn, args=(iterator,))
        coordinator.join()
        print(f"epoch {epoch}: training accuracy {float(accuracy.result()):.3f}")
        model.save_weights(weights_of(directory, epoch))


def evaluate(directory: Path, epochs: int) -> None:
    """The evaluator: whenever there are new weights, say how good they are."""
    feature_lookup, label_lookup = preprocessing()
    model = build_model(len(feature_lookup.get_vocabulary()))
    rows = heroes(seed=1)
    features, labels = {"features": feature_lookup(rows["features"])}, label_lookup(rows["label"])
    for epoch in range(epochs):
        while not weights_of(directory, epoch).exists():
            sd.sleep(0.01)  # virtual seconds
        model.load_weights(weights_of(directory, epoch))
        right = (model.predict(features, verbose=0) > 0.0) == (labels > 0)
        print(f"epoch {epoch}: accuracy on new rows {right.mean():.3f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--directory", type=Path, default=Path("demo/parameter_servers"), help="where weights are saved")
    options = parser.parse_args()
    resolver = sd.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        os.environ["GRPC_FAIL_FAST"] = "use_caller"  # TensorFlow needs it; without effect here
        server = sd.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol=resolver.rpc_layer or "grpc", start=True)
        server.join()
    elif resolver.task_type == "evaluator":
        evaluate(options.directory, options.epochs)
    else:
        options.directory.mkdir(parents=True, exist_ok=True)
        for path in options.directory.glob("*.weights.h5"):
            path.unlink()
        coordinate(resolver, options.directory, options.epochs)


if __name__ == "__main__":
    main()
