"""What metrics have counted over several batches and replicas, and the logs that Keras makes of it.

Invariant: counts are added up in the order of the batches, and of the parts of each; who has counted first does not matter.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from keras.src import backend
from keras.src.utils.python_utils import pythonify_logs

from simdist.program.arrays import Array, HostArray, Tree
from simdist.strategies.base import Strategy
from simdist.strategies.reduction import ReduceOp
from simdist.training.evaluation.passes import Parts
from simdist.training.keras_model import Logs, StrategyModel

__all__ = ["MetricTotals", "fresh_metrics", "logs_of"]


class MetricTotals:
    """The totals of a model's metrics in an evaluation.

    Args:
        model: compiled; its own metrics stay as they are.
        mains: the strategy of several mains, each of which adds what its replicas have counted; they read together. None: nobody else.
    """

    def __init__(self, model: StrategyModel, mains: Strategy | None = None) -> None:
        self.model = model
        self._mains = mains
        self._totals: list[HostArray] = [np.zeros(variable.shape, variable.dtype) for variable in model.metrics_variables]
        self._waiting: deque[Parts] = deque()

    def add(self, parts: Parts) -> None:
        """Add what the metrics have counted in a batch; its numbers are computed when totals are read."""
        self._waiting.append(parts)

    def values(self) -> list[HostArray]:
        """The totals, on top of the values that metrics begin with."""
        while self._waiting:
            for counts in self._waiting.popleft()():
                self._totals = [(total + np.asarray(count)).astype(total.dtype) for total, count in zip(self._totals, counts, strict=True)]
        totals = self._totals
        if self._mains is not None:
            totals = [np.asarray(self._mains.reduce(ReduceOp.SUM, total, axis=None)) for total in totals]
        return [np.asarray(first) + total for first, total in zip(fresh_metrics(self.model), totals, strict=True)]

    def logs(self) -> Logs:
        """Loss and metrics so far."""
        return logs_of(self.model, self.values())


def fresh_metrics(model: StrategyModel) -> list[Array]:
    """The values that metrics begin with."""
    with backend.StatelessScope() as scope:
        model.reset_metrics()
    values = [scope.get_current_value(variable) for variable in model.metrics_variables]
    # Of a metric that resets nothing by itself, the present value is the first one.
    return [np.asarray(variable.value if value is None else value) for variable, value in zip(model.metrics_variables, values, strict=True)]


def logs_of(model: StrategyModel, values: Tree) -> Logs:
    """The results of the metrics where their variables have these values."""
    with backend.StatelessScope(state_mapping=list(zip(model.metrics_variables, map(backend.convert_to_tensor, values), strict=True))):
        return pythonify_logs(model.get_metrics_result())
