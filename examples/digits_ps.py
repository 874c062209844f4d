"""Handwritten digits on 3 workers and 2 parameter servers; worker:1 is killed midway and comes back.

Run it with ``make demo`` or ``python -m simdist run examples/digits_ps.py [--seed N] [--no-crash]``. It prints a summary and
writes ``demo/trace.json`` (open it at https://ui.perfetto.dev) and ``demo/report.html`` (opens offline).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import simdist as sd
from simdist import keras
from simdist.trace import format_summary

CLUSTER = {"worker": 3, "ps": 2}
EPOCHS, STEPS_PER_EPOCH = 8, 60


def data() -> tuple[Any, Any, Any, Any]:
    """Training and test images (float32, 64 pixels from 0 to 1) and labels."""
    images, labels = load_digits(return_X_y=True)
    return train_test_split((images / 16.0).astype(np.float32), labels.astype(np.int32), test_size=0.25, random_state=0, stratify=labels)


def program(cluster: sd.Cluster, epochs: int = EPOCHS, verbose: int = 2) -> dict[str, Any]:
    """Train on the cluster; return the history, the test accuracy and the strategy."""
    x_train, x_test, y_train, y_test = data()
    strategy = sd.ParameterServerStrategy(cluster, variable_partitioner=sd.MinSizePartitioner(min_shard_bytes=8 << 10, max_shards=2))

    def dataset_fn(context: sd.InputContext) -> sd.Dataset:
        dataset = sd.Dataset.from_tensor_slices((x_train, y_train))
        dataset = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
        return dataset.shuffle(len(x_train), seed=0).repeat().batch(32).prefetch(2)

    with strategy.scope():
        model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.003), loss=loss, metrics=["accuracy"], steps_per_execution=5)
    history = model.fit(sd.DatasetCreator(dataset_fn), epochs=epochs, steps_per_epoch=STEPS_PER_EPOCH, verbose=verbose)
    accuracy = model.evaluate(x_test, y_test, verbose=0, return_dict=True)["accuracy"]
    return {"history": history.history, "accuracy": accuracy, "strategy": strategy, "closures": sd.ClusterCoordinator(strategy).scheduled}


def break_it(cluster: sd.Cluster) -> None:
    """Kill worker:1 after its 73rd step, in the middle of a closure; it is back 10 milliseconds later."""
    cluster.faults.crash("worker:1", after_steps=73, restart_after=0.010)


def report(cluster: sd.Cluster, result: dict[str, Any], real_s: float, folder: Path) -> dict[str, Any]:
    """Print what happened, and write the trace and the page."""
    summary = cluster.trace.summary()
    failures = summary["failures"]
    facts = {
        "test accuracy": f"{result['accuracy']:.4f}",
        "virtual seconds": f"{cluster.now:.6f}",
        "closures scheduled": result["closures"],
        "closures retried": summary["instants"].get("retry", 0),
        "recovery seconds": ", ".join(f"{f['task']}: {f['recovery_s']:.6f}" for f in failures if f["recovery_s"] is not None)
        or "no failure",
        "digest": cluster.trace.digest(),
    }
    print()
    for name, value in facts.items():
        print(f"{name:<20} {value}")
    print(f"{'real seconds':<20} {real_s:.1f}\n")
    print(format_summary(summary))
    folder.mkdir(exist_ok=True)
    cluster.trace.to_perfetto(folder / "trace.json")
    _write_page(cluster, result["strategy"], facts, folder / "report.html")
    print(f"\nwrote {folder / 'trace.json'} (open it at https://ui.perfetto.dev) and {folder / 'report.html'}")
    return facts


def _write_page(cluster: sd.Cluster, strategy: Any, facts: dict[str, Any], path: Path) -> None:
    import simdist_widgets as sw

    sections = [
        ("What happened", facts),
        ("Who did what, and when", sw.Timeline(cluster.trace)),
        ("Which rows lie where", sw.ShardMap(strategy)),
    ]
    sw.export_page(path, "simdist: digits on parameter servers", sections)


def main(seed: int = 0, crash: bool = True, folder: str = "demo") -> dict[str, Any]:
    """The whole demo."""
    began = time.perf_counter()
    with sd.Cluster(CLUSTER, seed=seed) as cluster:
        print(f"{cluster!r}; worker:1 {'is killed midway' if crash else 'is left alone'}")
        if crash:
            break_it(cluster)
        result = program(cluster)
        return report(cluster, result, time.perf_counter() - began, Path(folder))
