"""An Estimator on a cluster with parameter servers: one program for all roles, which `train_and_evaluate` tells apart.

    python -m simdist run examples/estimator/train.py --cluster examples/estimator/cluster.toml

The chief coordinates and saves checkpoints, the workers compute, the parameter servers keep the variables, and the evaluator evaluates new
checkpoints. The model says from a colour and a size whether a mushroom can be eaten.
"""

from __future__ import annotations

import argparse
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import simdist as sd
from simdist import keras

COLOURS = ["red", "brown", "white"]


def mushrooms(seed: int, rows: int = 240) -> tuple[dict[str, np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Colours and sizes in cm, and the labels "yes" and "no": red ones cannot be eaten, nor can small white ones."""
    rng = np.random.default_rng(seed)
    colour, size = np.array(COLOURS)[rng.integers(0, 3, rows)], rng.uniform(1, 20, rows).astype(np.float32)
    edible = (colour == "brown") | ((colour == "white") & (size > 8))
    return {"colour": colour, "size": size}, np.where(edible, "yes", "no")


def training_data(input_context: sd.InputContext) -> sd.Dataset:
    """The rows of one worker: every n-th, in an order of its own."""
    dataset = sd.Dataset.from_tensor_slices(mushrooms(seed=0))
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return dataset.shuffle(240, seed=input_context.input_pipeline_id).repeat().batch(16)


def new_data() -> sd.Dataset:
    """Rows that no worker has seen."""
    return sd.Dataset.from_tensor_slices(mushrooms(seed=1)).batch(48)


def build_classifier(directory: Path) -> sd.estimator.DNNClassifier:
    colour = sd.feature_column.categorical_column_with_vocabulary_list("colour", COLOURS)
    size = sd.feature_column.numeric_column("size", normalizer_fn=lambda size: size / 20)
    return sd.estimator.DNNClassifier(
        hidden_units=[8],
        feature_columns=[sd.feature_column.indicator_column(colour), size],
        label_vocabulary=["no", "yes"],
        optimizer=lambda: keras.optimizers.Adam(0.03),
        config=sd.estimator.RunConfig(directory, tf_random_seed=0, save_checkpoints_steps=60),
    )


class Printing:
    """An exporter that prints how good the newest checkpoint is."""

    name = "printing"

    def export(self, eval_result: dict[str, Any], is_the_final_export: bool, **_: Any) -> None:
        print(f"step {eval_result['global_step']}: accuracy on new rows {eval_result['accuracy']:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--directory", type=Path, default=Path("demo/estimator"), help="where checkpoints are saved")
    options = parser.parse_args()
    logging.getLogger("simdist").setLevel(logging.WARNING)
    if sd.TFConfigClusterResolver().task_type == "chief":
        shutil.rmtree(options.directory / "model", ignore_errors=True)
    sd.estimator.train_and_evaluate(
        build_classifier(options.directory / "model"),
        sd.estimator.TrainSpec(training_data, max_steps=options.steps),
        sd.estimator.EvalSpec(new_data, steps=None, exporters=Printing(), start_delay_secs=6, throttle_secs=0),
    )


if __name__ == "__main__":
    main()
