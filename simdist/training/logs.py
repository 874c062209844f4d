"""Loss and metrics after a step, as Keras gives them to callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import jax
import numpy as np
from keras.src.utils.python_utils import pythonify_logs

from simdist.program.arrays import HostArray, Tree
from simdist.training.arguments import has_own_step
from simdist.training.keras_model import Logs, StrategyModel, strategy_of
from simdist.variables.optimizer import as_variable

__all__ = ["Outcome", "StepLogs", "average_logs", "metric_values"]

Shares: TypeAlias = Sequence[tuple[HostArray, Tree]]
"""Rows of each replica, and the logs of its step."""


class Outcome(Protocol):
    """What a step has returned, computed when it is read."""

    def value(self) -> Tree: ...


class StepLogs:
    """The logs of a model's steps.

    Those of the compiled step are the metrics, which count from the start of the epoch. A ``train_step`` of the user's own returns logs.
    Where one has the name of a metric that has counted something, it is the metric's value, of what all replicas have seen; the others
    are the last step's, as in Keras: the average over the replicas, weighed by rows.

    Args:
        model: whose.

    Attributes:
        outcome: of the last step.
    """

    def __init__(self, model: StrategyModel) -> None:
        self.model = model
        self.outcome: Outcome | None = None
        self._are_metrics = not has_own_step(model)

    def values(self) -> Logs:
        """The logs after the last step; none where the cluster computes no numbers."""
        strategy = strategy_of(self.model)
        if strategy.engine.numerics == "off":
            return {}
        metrics = metric_values(self.model)
        if self._are_metrics or self.outcome is None:
            return metrics
        logs = average_logs(strategy.local_results(self.outcome.value()))
        self._are_metrics = set(logs) == set(metrics)
        return metrics if self._are_metrics else logs | {name: metrics[name] for name in self._counted() if name in logs}

    def _counted(self) -> list[str]:
        """The names under which the metrics give results that have counted something since they were reset."""
        found: list[str] = []
        for metric in self.model.metrics:
            if any(np.any(np.asarray(variable.value)) for variable in metric.variables):
                result = strategy_of(self.model).observe(metric.result)
                found.extend(result if isinstance(result, dict) else [metric.name])
        return found


def average_logs(shares: Shares) -> Logs:
    """One set of logs, of those of several replicas.

    Args:
        shares: rows and logs of each; one without rows does not count.

    Example:
        >>> average_logs([(np.float32(1), {"loss": 4.0}), (np.float32(3), {"loss": 2.0}), (np.float32(0), {"loss": float("nan")})])
        {'loss': 2.5}
    """
    counted = [(float(rows), logs) for rows, logs in shares if rows]
    total = sum(rows for rows, _ in counted)

    def average(*parts: HostArray) -> HostArray:
        if len(parts) == 1:
            return parts[0]
        return np.asarray(sum(np.asarray(part) * (rows / total) for part, (rows, _) in zip(parts, counted, strict=True)))

    return pythonify_logs(jax.tree_util.tree_map(average, *[logs for _, logs in counted]))


def metric_values(model: StrategyModel) -> Logs:
    """The present values of the metrics; none where the cluster computes no numbers."""
    strategy = strategy_of(model)
    if strategy.engine.numerics == "off":
        return {}
    strategy.store.compute([as_variable(variable) for variable in model.metrics_variables])
    return pythonify_logs(strategy.observe(model.get_metrics_result))
