"""Logs of a ``train_step`` that are results of metrics, whatever their names.

A step may give a result another name than its metric has: "loss" for that of a metric "total_loss". The result that it returns is of what
its replica has counted, under parameter servers of this batch alone; that of all is the metric's own, after the step. So it is with what
``get_metrics_result`` computes of several metrics, where ``compute_metrics`` returns it among other logs.

Invariant: the metric's result stands for a log only where the step keeps the state that it has computed the log of; what
``get_metrics_result`` gives, also where some of the metrics count only later in the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, TypeAlias, cast

import keras
from keras.src.backend.common.stateless_scope import get_stateless_scope

from simdist.program.arrays import Tree
from simdist.strategies.base import Strategy

__all__ = ["MetricLog", "NotedResults", "noted_results"]

Result: TypeAlias = tuple[keras.metrics.Metric, Sequence[Any], Any]
"""A metric, the values of its variables, and its result for them."""


@dataclass(frozen=True)
class MetricLog:
    """The result of a metric, or a part of it; or a part of what ``get_metrics_result`` gives.

    Attributes:
        metric: whose; None: of ``get_metrics_result``.
        part: its name in a result that is a dict; None: the whole.
    """

    metric: keras.metrics.Metric | None
    part: str | None

    @property
    def name(self) -> str | None:
        """Under which Keras itself logs it."""
        return self.part if self.metric is None or self.part is not None else self.metric.name

    def value(self, strategy: Strategy, results: dict[str, Any]) -> Tree:
        """The present result, of what all replicas have counted.

        Args:
            strategy: whose replicas.
            results: what ``get_metrics_result`` gives now.
        """
        found: Any = results if self.metric is None else strategy.observe(self.metric.result)
        return found if self.part is None else found[self.part]


class NotedResults:
    """What metrics, and the model's ``get_metrics_result``, have given to a step."""

    def __init__(self) -> None:
        self._of_metrics: list[Result] = []  # with the values, whose identities would otherwise be those of others
        self._of_model: list[tuple[Sequence[Any], dict[str, Any]]] = []

    def note(self, result: Result) -> None:
        """One of a metric's."""
        self._of_metrics.append(result)

    def note_all(self, values: Sequence[Any], results: dict[str, Any]) -> None:
        """What ``get_metrics_result`` gives of these values of the metrics' variables."""
        self._of_model.append((values, results))

    def among(self, logs: Tree, variables: Sequence[Any], given: Sequence[Any], kept: Sequence[Any]) -> dict[str, MetricLog]:
        """The logs that are such results, by their names.

        Args:
            logs: of the step.
            variables: of the model's metrics.
            given: the values that the step has got.
            kept: the values that the step gives them.
        """
        if not isinstance(logs, dict):
            return {}
        parts: dict[int, MetricLog] = {}
        for values, results in self._of_model:
            if all(any(value is one for one in known) for value, *known in zip(values, given, kept, strict=True)):
                parts |= {id(value): MetricLog(None, part) for part, value in results.items()}
        state = {id(variable): value for variable, value in zip(variables, kept, strict=True)}
        for metric, values, result in self._of_metrics:
            if metric.variables and all(state.get(id(own)) is value for own, value in zip(metric.variables, values, strict=True)):
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


@contextmanager
def noted_results(model: keras.Model) -> Iterator[NotedResults]:
    """Note the results that metrics, and the model's ``get_metrics_result``, give inside, of states that they are given."""
    noted = NotedResults()
    with ExitStack() as watched:
        for metric in model.metrics:
            watched.enter_context(_watched(metric, "result", metric.variables, partial(_note_result, noted, metric)))
        watched.enter_context(_watched(model, "get_metrics_result", model.metrics_variables, noted.note_all))
        yield noted


def _note_result(noted: NotedResults, metric: keras.metrics.Metric, values: Sequence[Any], result: Any) -> None:
    noted.note((metric, values, result))


@contextmanager
def _watched(owner: Any, method: str, variables: Sequence[Any], note: Callable[[Sequence[Any], Any], object]) -> Iterator[None]:
    """Inside, note what a method of this object gives in a stateless scope, with the values that these variables have there."""
    original = getattr(owner, method)

    @wraps(original)
    def noting(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        scope = get_stateless_scope()
        if scope is not None:
            note([scope.get_current_value(variable) for variable in variables], result)
        return result

    # Not by setattr: Keras would track it.
    before = {method: owner.__dict__[method]} if method in owner.__dict__ else {}
    owner.__dict__[method] = noting
    try:
        yield
    finally:
        del owner.__dict__[method]
        owner.__dict__.update(before)
