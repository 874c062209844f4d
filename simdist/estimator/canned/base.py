"""What the canned Estimators have in common: feature columns, a network, and a head."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp

from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.estimator.canned.heads import Head
from simdist.estimator.canned.options import OptimizerLike, optimizer_maker
from simdist.estimator.estimator import Estimator
from simdist.estimator.run_config import RunConfig
from simdist.estimator.specs import EstimatorSpec, ModeKeys
from simdist.feature_column.base import FeatureColumn
from simdist.program.arrays import HostArray, Tree

__all__ = ["CannedEstimator", "Network"]

Network: TypeAlias = Callable[[Mapping[str, jax.Array], int, bool], jax.Array]
"""Logits of prepared features; the other arguments are the number of logits of a row, and whether it is training."""


class CannedEstimator(Estimator):
    """An Estimator whose model function is a network on feature columns, with a head.

    Args:
        columns: prepare the features.
        network: gives the logits.
        head: says what they mean.
        optimizer: minimizes the loss.
        learning_rate: of one that is given by name.
        model_dir, config, warm_start_from: as of `Estimator`.
    """

    def __init__(
        self,
        columns: Sequence[FeatureColumn],
        network: Network,
        head: Head,
        optimizer: OptimizerLike,
        learning_rate: float | None,
        model_dir: str | os.PathLike[str] | None,
        config: RunConfig | None,
        warm_start_from: None,
    ) -> None:
        self._columns = columns
        self._network = network
        self._head = head
        self._make_optimizer = optimizer_maker(optimizer, learning_rate)
        super().__init__(self._spec, model_dir, config, None, warm_start_from)

    def _spec(self, features: Mapping[str, jax.Array], labels: jax.Array | None, mode: ModeKeys) -> EstimatorSpec:
        head = self._head
        logits = self._network(features, head.logits_dimension, mode is ModeKeys.TRAIN)
        if mode is ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions=head.predictions(logits))
        assert labels is not None
        losses = head.losses(labels, logits)
        if mode is ModeKeys.TRAIN:
            return EstimatorSpec(mode, loss=jnp.mean(losses), train_op=self._make_optimizer())
        from simdist.estimator.canned.metrics import updated_metrics

        return EstimatorSpec(mode, loss=jnp.mean(losses), eval_metric_ops=updated_metrics(head, labels, logits, losses))

    def _prepared(self, dataset: Dataset, mode: ModeKeys) -> Dataset:
        def prepare(features: Mapping[str, HostArray], *others: HostArray) -> Tree:
            prepared = {column.name: column.prepare(features) for column in self._columns}
            if mode is ModeKeys.PREDICT:
                return prepared
            if not others:
                raise InvalidArgumentError(
                    "input_fn gives features alone, and a canned Estimator needs labels to train and to evaluate. Let it give pairs "
                    "(features, labels)."
                )
            labels, *more = others
            if more:
                raise InvalidArgumentError(
                    f"input_fn gives tuples of {2 + len(more)} parts; expected pairs (features, labels). A canned Estimator knows no "
                    "weights of rows, and no weight_column=; leave the third part out, or write a model_fn that takes them as a feature."
                )
            return prepared, self._head.prepare_labels(labels)

        return dataset.map(prepare)

    def _finished(self, predictions: Tree) -> Tree:
        return self._head.finished(predictions)
