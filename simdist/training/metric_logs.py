"""Logs of a ``train_step`` that are results of metrics, whatever their names.

A step may give a result another name than its metric has: "loss" for that of a metric "total_loss". The result that it returns is of what
its replica has counted, under parameter servers of this batch alone; that of all is the metric's own, after the step.

Invariant: the metric's result stands for a log only where the step keeps the state that it has computed the log of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeAlias, cast

import keras

from simdist.program.arrays import Tree
from simdist.strategies.base import Strategy

__all__ = ["MetricLog", "NotedResults", "install", "noted_results"]

Result: TypeAlias = tuple[keras.metrics.Metric, Sequence[Any], Any]
"""A metric, the values of its variables, and its result for them."""


@dataclass(frozen=True)
class MetricLog:
    """The result of a metric, or a part of it.

    Attributes:
        metric: whose.
        part: its name in a result that is a dict; None: the whole.
    """

    metric: keras.metrics.Metric
    part: str | None

    @property
    def name(self) -> str:
        """Under which Keras itself logs it."""
        return self.metric.name if self.part is None else self.part

    def value(self, strategy: Strategy) -> Tree:
        """The present result, of what all replicas have counted."""
        result: Any = strategy.observe(self.metric.result)
        return result if self.part is None else result[self.part]


class NotedResults:
    """What metrics have given to a step."""

    def __init__(self) -> None:
        self._all: list[Result] = []  # with the values, whose identities would otherwise be those of others

    def note(self, result: Result) -> None:
        """One of a metric's."""
        self._all.append(result)

    def among(self, logs: Tree, variables: Sequence[Any], kept: Sequence[Any]) -> dict[str, MetricLog]:
        """The logs that are such results, by their names.

        Args:
            logs: of the step.
            variables: of the model's metrics.
            kept: the values that the step gives them.
        """
        if not isinstance(logs, dict):
            return {}
        state = {id(variable): value for variable, value in zip(variables, kept, strict=True)}
        parts: dict[int, MetricLog] = {}
        for metric, given, result in self._all:
            if metric.variables and all(state.get(id(own)) is value for own, value in zip(metric.variables, given, strict=True)):
                named = result.items() if isinstance(result, dict) else [(None, result)]
                parts |= {id(value): MetricLog(metric, part) for part, value in named}
        return {name: parts[id(value)] for name, value in _flat(logs) if id(value) in parts}


def _flat(logs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Logs as Keras gives them to callbacks: those of a dict among them are logs like the others, in the order of the names."""
    for name, value in sorted(logs.items()):
        if isinstance(value, dict):
            yield from _flat(cast("dict[str, Any]", value))
        else:
            yield name, value


_noted: list[NotedResults] = []


@contextmanager
def noted_results() -> Iterator[NotedResults]:
    """Note the results that metrics give inside, of states that they are given."""
    _noted.append(NotedResults())
    try:
        yield _noted[-1]
    finally:
        _noted.pop()


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def stateless_result(self: keras.metrics.Metric, metric_variables: Sequence[Any]) -> Any:
        result = original(self, metric_variables)
        if _noted:
            _noted[-1].note((self, list(metric_variables), result))
        return result

    return stateless_result


def install() -> None:
    """Let steps note what metrics give them. Done once."""
    if not hasattr(keras.metrics.Metric.stateless_result, "__wrapped__"):
        keras.metrics.Metric.stateless_result = _noting(keras.metrics.Metric.stateless_result)
