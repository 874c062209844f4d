"""`train_on_batch`: one step on one batch, by the replicas or by one worker."""

from __future__ import annotations

from keras.src.callbacks import CallbackList

from simdist.errors import InvalidArgumentError
from simdist.training.arguments import require_inherited
from simdist.training.hooks import Hooks
from simdist.training.keras_model import Examples, Logs, StrategyModel
from simdist.training.runners import runner_of
from simdist.training.sources import gives_batches, training_source

__all__ = ["train_on_batch"]


def train_on_batch(
    model: StrategyModel,
    x: Examples,
    y: Examples = None,
    sample_weight: Examples = None,
    class_weight: dict[int, float] | None = None,
    return_dict: bool = False,
) -> Logs | float | list[float]:
    """See `simdist.keras.Model.train_on_batch`."""
    require_inherited(model, "fit")
    if gives_batches(x):
        raise InvalidArgumentError(
            f"train_on_batch takes the arrays of one batch; got a {type(x).__name__}. Use fit with steps_per_epoch=1."
        )
    source = training_source(model, x, y, False, None, 1, sample_weight=sample_weight, class_weight=class_weight)
    runner = runner_of(model, source)
    model.reset_metrics()
    runner.epoch(1, Hooks(CallbackList()))
    logs = runner.logs()
    return logs if return_dict else model.simdist_listed(logs)
