"""`evaluate`: one pass of the test step over data, with hooks and logs as in Keras; metrics of training stay as they were."""

from __future__ import annotations

from typing import Protocol

from keras.src.utils.python_utils import pythonify_logs

from simdist.data import Dataset
from simdist.program.arrays import Tree
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.strategies.synchronous import SynchronousStrategy
from simdist.training.arguments import require_inherited, require_numbers, require_options
from simdist.training.callbacks import usable
from simdist.training.evaluation.executions import batches_per_execution, count_batches, executions
from simdist.training.evaluation.passes import AlonePass, Parts, Pass, PassInTurn, ReplicaPass, WorkerPass
from simdist.training.evaluation.steps import given_values, keep_changed, test_step
from simdist.training.evaluation.totals import MetricTotals, fresh_metrics, logs_of
from simdist.training.hooks import Hooks, hooks_of
from simdist.training.keras_model import Callbacks, Examples, ForwardStep, Logs, StrategyModel, Verbose, strategy_of
from simdist.training.limits import limited_steps
from simdist.training.sources import Source, data_and_first, evaluation_source
from simdist.training.step import build
from simdist.training.stepping_strategies import stepping

__all__ = ["evaluate", "tested"]


def evaluate(
    model: StrategyModel,
    x: Examples = None,
    y: Examples = None,
    batch_size: int | None = None,
    verbose: Verbose = "auto",
    sample_weight: Examples = None,
    steps: int | None = None,
    callbacks: Callbacks = None,
    return_dict: bool = False,
) -> Logs | float | list[float]:
    """See `simdist.keras.Model.evaluate`."""
    require_inherited(model, "evaluate")
    require_options(verbose, batch_size=batch_size, steps=steps)
    require_numbers(model, "evaluate")
    given = usable(callbacks, model)
    source = evaluation_source("evaluate", x, y, sample_weight, batch_size, steps)
    with source.epoch(reset=True):
        logs = tested(model, source, steps, given, verbose, alone=True)
    return logs if return_dict else model.simdist_listed(logs)


def tested(model: StrategyModel, source: Source, steps: int | None, callbacks: Callbacks | Hooks, verbose: Verbose, alone: bool) -> Logs:
    """One pass of the test step over data, and the logs that Keras makes of it.

    Args:
        model: compiled.
        source: the data.
        steps: batches at most; None: all.
        callbacks, verbose: of the call.
        alone: whether a launched main may not count on the others.
    """
    with strategy_of(model).evaluating(alone):
        return _tested(model, source, steps, callbacks, verbose, alone)


def _tested(model: StrategyModel, source: Source, steps: int | None, callbacks: Callbacks | Hooks, verbose: Verbose, alone: bool) -> Logs:
    """The same, where all replicas have the same model."""
    data, batch = data_and_first("evaluate", source)
    build(model, batch)
    steps = limited_steps(steps, count_batches(source, steps))
    hooks = hooks_of(callbacks, model, verbose, steps=count_batches(source, steps))
    model.stop_evaluating = False
    hooks.call.on_test_begin()
    test = _test_of(model, data, steps, test_step(model, batch), alone)
    with test.one_pass as one_pass:
        for execution in executions(model, one_pass, steps):
            hooks.call.on_test_batch_begin(execution.first)
            test.add(execution.take())
            hooks.call.on_test_batch_end(execution.last, test.logs() if hooks.reads_test_logs else {})
            if model.stop_evaluating:
                break
    logs = test.finish()
    hooks.call.on_test_end(logs)
    return logs


class _Test(Protocol):
    """An evaluation that goes on."""

    @property
    def one_pass(self) -> Pass: ...

    def add(self, taken: list[Parts]) -> None:
        """Some batches were taken."""
        ...

    def logs(self) -> Logs:
        """Loss and metrics so far."""
        ...

    def finish(self) -> Logs:
        """Loss and metrics, when all batches are done."""
        ...


def _test_of(model: StrategyModel, source: Dataset, steps: int | None, step: ForwardStep, alone: bool) -> _Test:
    strategy = stepping(strategy_of(model), "evaluate")
    alone = alone and isinstance(strategy, SynchronousStrategy) and strategy.launched
    given = given_values(model, step, alone)
    if not step.may_be_split:
        return _TestInTurn(model, source, step, given, strategy)
    if isinstance(strategy, ParameterServerStrategy):
        return _SplitTest(model, WorkerPass(strategy, source, step.step, given, steps, batches_per_execution(model)))
    if alone:
        return _SplitTest(model, AlonePass(strategy, source, step.step, given))
    return _SplitTest(model, ReplicaPass(strategy, source, step.step, given))


class _SplitTest:
    """Batches are taken anywhere; what metrics count in each is added up."""

    def __init__(self, model: StrategyModel, one_pass: Pass) -> None:
        self.model = model
        self.one_pass = one_pass
        mains = one_pass.strategy if isinstance(one_pass, ReplicaPass) and one_pass.strategy.launched else None
        self._totals = MetricTotals(model, mains)

    def add(self, taken: list[Parts]) -> None:
        for parts in taken:
            self._totals.add(parts)

    def logs(self) -> Logs:
        return self._totals.logs()

    def finish(self) -> Logs:
        return self._totals.logs()


class _TestInTurn:
    """Batches are taken one after the other, with the state of layers and metrics; layers keep theirs."""

    def __init__(
        self,
        model: StrategyModel,
        source: Dataset,
        step: ForwardStep,
        given: Tree,
        strategy: SynchronousStrategy | ParameterServerStrategy,
    ) -> None:
        self.model = model
        self.step = step
        self.one_pass = PassInTurn(strategy, source, step.step, (given, fresh_metrics(model)))
        self._last: Tree = {}

    def add(self, taken: list[Parts]) -> None:
        (self._last,) = taken[-1]()

    def logs(self) -> Logs:
        metrics = logs_of(self.model, self.one_pass.state[1])
        return metrics if set(metrics) == set(self._last) else pythonify_logs(self._last)

    def finish(self) -> Logs:
        keep_changed(self.model, self.step, self.one_pass.state[0])
        return self.logs()
