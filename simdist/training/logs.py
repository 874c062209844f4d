"""Loss and metrics after a step, as Keras gives them to callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias, cast

import jax
import numpy as np
from keras.src.utils.python_utils import pythonify_logs

from simdist.arguments import shown
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import HostArray, Tree
from simdist.strategies.base import Strategy
from simdist.training.arguments import has_own_step
from simdist.training.keras_model import Logs, StrategyModel, strategy_of
from simdist.training.metric_logs import MetricLog
from simdist.variables.optimizer import as_variable

__all__ = ["Outcome", "StepLogs", "average_logs", "checked_logs", "metric_values", "shares_of_all"]

Shares: TypeAlias = Sequence[tuple[HostArray, Tree]]
"""Rows of each replica, and the logs of its step."""


class Outcome(Protocol):
    """What a step has returned, computed when it is read."""

    def value(self) -> Tree: ...


class StepLogs:
    """The logs of a model's steps.

    Those of the compiled step are the metrics, which count from the start of the epoch. A ``train_step`` of the user's own returns logs.
    Where one is a metric's result, or has the name of a metric that has counted something, it is the metric's value, of what all replicas
    have seen; the others are the last step's, as in Keras: the average over the replicas, those of all launched mains, weighed by rows.

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
        metrics = metric_values(self.model)
        if strategy.engine.numerics == "off":
            return {}  # nor are shares of other logs gathered: which of them the metrics have counted, values decide
        if self._are_metrics or self.outcome is None:
            return metrics
        shares = strategy.local_results(self.outcome.value())
        self._are_metrics = set(shares[0][1]) == set(metrics)
        if self._are_metrics:
            return metrics
        logs = average_logs(shares_of_all(strategy, shares))
        known = {name: metrics[name] for name in self._counted() if name in logs}
        own = {name: log for name, log in self.model.simdist_state.metric_logs.items() if name in logs and not self._names(name, log)}
        return logs | known | pythonify_logs({name: log.value(strategy, metrics) for name, log in own.items()})

    def _names(self, name: str, log: MetricLog) -> bool:
        """Whether Keras' own logs have this one under the name; of metrics of one name they have the last."""
        if log.metric is None:
            return False
        named = [metric for metric in self.model.metrics if metric.name == name]
        return name == log.name and (not named or named[-1] is log.metric)

    def _counted(self) -> list[str]:
        """The names under which the metrics give results that have counted something since they were reset."""
        found: list[str] = []
        for metric in self.model.metrics:
            if any(np.any(np.asarray(variable.value)) for variable in metric.variables):
                result = strategy_of(self.model).observe(metric.result)
                found.extend(result if isinstance(result, dict) else [metric.name])
        return found


def checked_logs(logs: Tree, what: str) -> Tree:
    """The logs that a step of the user's own returns: a dict of numbers, or of arrays.

    Args:
        logs: what it has returned as them.
        what: the step, as the beginning of a sentence.

    Raises:
        TypeError: they are something else, such as a text, of which no mean can be taken.

    Example:
        >>> checked_logs({"loss": 0.5}, "train_step")
        {'loss': 0.5}
    """
    if not isinstance(logs, dict):
        raise TypeError(f"{what} returned {shown(logs)} as its logs; expected a dict from names to numbers, such as {{'loss': loss}}.")
    for path, leaf in jax.tree_util.tree_leaves_with_path(cast("Tree", logs)):
        if not isinstance(leaf, (int, float, complex, np.generic)) and not hasattr(leaf, "dtype"):
            name = jax.tree_util.keystr(path)
            raise TypeError(f"{what} returned logs with {name} = {shown(leaf)}; expected a number or an array. Leave it out, or print it.")
    return logs


def shares_of_all(strategy: Strategy, shares: Shares) -> Shares:
    """The shares of the replicas of all launched mains, in the order of the workers; every main has to call it.

    Callbacks decide by logs, so all mains must have the same: one that lowers its rate alone, or stops alone, parts from the others.

    Args:
        strategy: whose replicas.
        shares: of those that this program drives.

    Raises:
        InvalidArgumentError: the logs of another main have other names or shapes.
    """
    leaves, structure = jax.tree_util.tree_flatten(list(shares))
    numbers = [np.asarray(leaf, np.float64).ravel() for leaf in leaves]  # it holds each number of 32 bits as it is
    packed = strategy.bytes_of_all(np.concatenate(numbers).tobytes())
    if len(packed) == 1:
        return shares
    if len(set(map(len, packed))) > 1:
        raise InvalidArgumentError(
            f"The logs of a train_step have {[len(part) // 8 for part in packed]} numbers in the mains of the workers, in their order. Let "
            "train_step return the same logs, of the same shapes, in each main."
        )
    return [share for part in packed for share in jax.tree_util.tree_unflatten(structure, _like(leaves, np.frombuffer(part)))]


def _like(leaves: Sequence[HostArray], numbers: HostArray) -> list[HostArray]:
    """The numbers, cut into arrays of these shapes and dtypes."""
    ends = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
    parts = zip(np.split(numbers, ends), map(np.asarray, leaves), strict=True)
    return [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in parts]


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
    """The present values of the metrics; where the cluster computes no numbers there are none, but the look takes its time."""
    strategy = strategy_of(model)
    if strategy.engine.numerics == "off":
        strategy.observe_without_values(model.get_metrics_result)
        return {}
    strategy.store.compute([as_variable(variable) for variable in model.metrics_variables])
    return pythonify_logs(strategy.observe(model.get_metrics_result))
