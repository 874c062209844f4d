"""`train_and_evaluate`: a training with evaluations, on one machine or by role on every task of a cluster.

| task | does |
|---|---|
| of no cluster | trains, and evaluates after each checkpoint but the first, at most once in `throttle_secs`, and at the end |
| chief | trains; with parameter servers it coordinates |
| worker | trains with the others; beside parameter servers it serves, and gets its first step 5 s after the one before it |
| ps | serves |
| evaluator | waits `start_delay_secs`, then evaluates new checkpoints until the last step is one of them |

Times are virtual seconds.

Source: the roles and times of TensorFlow's ``tf.estimator.train_and_evaluate``.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, TypeAlias, cast

from simdist.errors import InvalidArgumentError, NotFoundError
from simdist.estimator.estimator import Estimator
from simdist.estimator.listeners import CheckpointSaverListener
from simdist.estimator.specs import EvalSpec, MetricResults, TrainSpec
from simdist.estimator.strategies import serves
from simdist.estimator.training_loop import StepTimer
from simdist.runtime.server import Server
from simdist.runtime.sleep import sleep

__all__ = ["Evaluated", "train_and_evaluate"]

log = logging.getLogger("simdist")

MAX_DELAY_S = 60.0
POLL_S = 1.0
"""Between two looks for a new checkpoint, where throttle_secs is 0."""

Evaluated: TypeAlias = tuple[MetricResults | None, list[Any]]
"""The results of the last evaluation (None: there was none), and what the exporters have returned for it."""


def train_and_evaluate(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec) -> Evaluated | None:
    """Train and evaluate, as the task does that ``TF_CONFIG`` names.

    Args:
        estimator: what is trained.
        train_spec: on what, and how long.
        eval_spec: on what it is evaluated, and when.

    Returns:
        Of a local training and of an evaluator, results and exports of the last evaluation; of other tasks None. A task that serves does
        not return, see `Server.join`.

    Raises:
        TypeError: arguments of other classes.
        InvalidArgumentError: a task that has no role here, an evaluator that is not the first; or as `Estimator.train` and
            `Estimator.evaluate`.

    Example:
        >>> import numpy as np
        >>> import simdist as sd
        >>> def input_fn():
        ...     return sd.Dataset.from_tensors(({"feats": [1.0]}, [1.0])).repeat(1000).batch(10)
        >>> regressor = sd.estimator.LinearRegressor([sd.feature_column.numeric_column("feats")], optimizer="SGD")
        >>> train_spec = sd.estimator.TrainSpec(input_fn, max_steps=20)
        >>> metrics, exports = train_and_evaluate(regressor, train_spec, sd.estimator.EvalSpec(input_fn, steps=10))
        >>> metrics["global_step"], round(metrics["average_loss"], 4)
        (20, 0.0)
    """
    _require_types(estimator, train_spec, eval_spec)
    config = estimator.config
    if not config.cluster_spec and config.task_type != "evaluator":
        return _locally(estimator, train_spec, eval_spec)
    if serves(config):
        Server(config.cluster_spec, config.task_type, config.task_id).join()
    if config.task_type == "evaluator":
        return _continuously(estimator, train_spec, eval_spec)
    if config.task_type not in ("chief", "worker"):
        raise InvalidArgumentError(
            f"A task of type {config.task_type!r} has no role in a training; known are chief, worker, ps and evaluator."
        )
    max_delay_s = config.experimental_max_worker_delay_secs
    listeners = train_spec.saving_listeners if config.is_chief else ()
    estimator.train_as_task(
        train_spec.input_fn, None, None, train_spec.max_steps, listeners, MAX_DELAY_S if max_delay_s is None else float(max_delay_s)
    )
    return None


def _locally(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec) -> Evaluated:
    evaluator = _Evaluator(estimator, eval_spec, train_spec.max_steps)
    listener = _EvaluatingListener(evaluator)
    estimator.train(train_spec.input_fn, max_steps=train_spec.max_steps, saving_listeners=[*train_spec.saving_listeners, listener])
    return evaluator.results, evaluator.exports


def _continuously(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec) -> Evaluated:
    if estimator.config.task_id:
        raise InvalidArgumentError(f"There can be one evaluator, with index 0; this is evaluator:{estimator.config.task_id}.")
    sleep(eval_spec.start_delay_secs)
    engine = estimator.evaluation_engine
    evaluator = _Evaluator(estimator, eval_spec, train_spec.max_steps)
    while True:
        began_s = engine.now
        was_new = evaluator.evaluate()
        if was_new and evaluator.is_last:
            return evaluator.results, evaluator.exports
        left_s = eval_spec.throttle_secs - (engine.now - began_s)
        if left_s > 0 or not was_new:
            sleep(left_s if left_s > 0 else POLL_S)


class _Evaluator:
    """Evaluates the newest checkpoint, unless it has done so.

    Args:
        estimator: whose checkpoints.
        spec: on what.
        last_step: of the training; None: nobody knows.

    Attributes:
        results, exports: of the last evaluation.
        is_last: whether that was of the last step.
    """

    def __init__(self, estimator: Estimator, spec: EvalSpec, last_step: int | None) -> None:
        self.estimator = estimator
        self.spec = spec
        self.last_step = last_step
        self.results: MetricResults | None = None
        self.exports: list[Any] = []
        self.is_last = False
        self._seen: str | None = None

    def evaluate(self) -> bool:
        """Evaluate; False if there is no new checkpoint. One that the training removes before it is read is passed over."""
        while (path := self.estimator.latest_checkpoint()) not in (None, self._seen):
            assert path is not None
            results = self._results_of(path)
            if results is not None:
                self._export(path, results)
                return True
        log.info("There is no new checkpoint in %s yet.", self.estimator.model_dir)
        return False

    def _results_of(self, path: str) -> MetricResults | None:
        """Those of a checkpoint; None where it is there no more."""
        spec = self.spec
        try:
            return self.estimator.evaluate(spec.input_fn, spec.steps, checkpoint_path=path, name=spec.name)
        except NotFoundError:
            if Path(path).exists():
                raise
            log.info("The checkpoint %s was removed before it was read; a newer one takes its place.", path)
            return None

    def _export(self, path: str, results: MetricResults) -> None:
        self.results = results
        self.is_last = self.last_step is not None and results["global_step"] >= self.last_step
        self.exports = [
            exporter.export(
                estimator=self.estimator,
                export_path=str(Path(self.estimator.model_dir, "export", exporter.name)),
                checkpoint_path=path,
                eval_result=self.results,
                is_the_final_export=self.is_last,
            )
            for exporter in self.spec.all_exporters
        ]
        self._seen = path


class _EvaluatingListener(CheckpointSaverListener):
    """Evaluates after checkpoints: not after the first, not too often, and after the last."""

    def __init__(self, evaluator: _Evaluator) -> None:
        self.evaluator = evaluator
        self._timer = StepTimer(every_s=evaluator.spec.throttle_secs)
        self._is_first = True

    def after_save(self, session: None, global_step_value: int) -> None:
        if self._is_first:
            self._is_first = False
        elif self._timer.is_due(global_step_value, self._now_s()):
            self._evaluate(global_step_value)

    def end(self, session: None, global_step_value: int) -> None:
        if global_step_value != self._timer.last_step:
            self._evaluate(global_step_value)

    def _evaluate(self, step: int) -> None:
        self._timer.happened(step, self._now_s())
        self.evaluator.evaluate()

    def _now_s(self) -> float:
        return self.evaluator.estimator.evaluation_engine.now


def _require_types(estimator: object, train_spec: object, eval_spec: object) -> None:
    for value, kind, name in (
        (estimator, Estimator, "estimator"),
        (train_spec, TrainSpec, "train_spec"),
        (eval_spec, EvalSpec, "eval_spec"),
    ):
        if not isinstance(value, cast("type[object]", kind)):
            raise TypeError(f"{name} is {value!r}; expected an sd.estimator.{kind.__name__}")
