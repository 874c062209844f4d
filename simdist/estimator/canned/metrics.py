"""The metrics of the canned Estimators, by TensorFlow's names, each with the values of one batch counted."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from simdist import keras
from simdist.estimator.canned.heads import Head
from simdist.program.arrays import Tree

__all__ = ["updated_metrics"]

Metrics = dict[str, Any]


class AccuracyBaseline(keras.metrics.Mean):
    """The accuracy of a model that always predicts the more frequent of two classes."""

    def result(self) -> jax.Array:
        """Of the mean label."""
        share: jax.Array = super().result()
        return jnp.maximum(share, 1.0 - share)


def updated_metrics(head: Head, labels: jax.Array, logits: jax.Array, losses: jax.Array) -> Metrics:
    """The metrics of a head, which have counted these rows.

    Args:
        head: whose.
        labels: shape (b, labels of a row).
        logits: shape (b, logits of a row).
        losses: of each label.
    """
    predictions = head.predictions(logits)
    match head.kind:
        case "regression":
            found = _means(prediction=predictions["predictions"], label=labels)
        case "binary":
            found = _binary(labels, predictions)
        case "classes":
            found = {"accuracy": _counted(keras.metrics.Accuracy(name="accuracy"), labels, predictions["class_ids"])}
    return {"average_loss": _counted(keras.metrics.Mean(name="average_loss"), losses), **found}


def _binary(labels: jax.Array, predictions: dict[str, Tree]) -> Metrics:
    share = predictions["logistic"]
    own = {
        "accuracy": keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.5),
        "auc": keras.metrics.AUC(name="auc"),
        "auc_precision_recall": keras.metrics.AUC(name="auc_precision_recall", curve="PR"),
        "precision": keras.metrics.Precision(name="precision"),
        "recall": keras.metrics.Recall(name="recall"),
    }
    baseline = {"accuracy_baseline": _counted(AccuracyBaseline(name="accuracy_baseline"), labels)}
    return {**{name: _counted(metric, labels, share) for name, metric in own.items()}, **baseline, **_means(prediction=share, label=labels)}


def _means(**values: jax.Array) -> Metrics:
    return {f"{name}/mean": _counted(keras.metrics.Mean(name=f"{name}_mean"), value) for name, value in values.items()}


def _counted(metric: Any, *values: jax.Array) -> Any:
    metric.update_state(*values)
    return metric
