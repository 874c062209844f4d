"""Models of plain Keras in a strategy's scope: their own loops would train them on one device, and are refused before they change anything.

A plain model may be part of a model of ours, and a training loop of the user's own may call it: only what Keras' own loop needs is
refused, ``compile`` first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from keras.src.backend.jax.trainer import JAXTrainer
from keras.src.trainers.trainer import Trainer

from simdist.errors import FailedPreconditionError
from simdist.strategies.context import strategy_of_models
from simdist.training.adoption import MODELS_OF_STRATEGIES
from simdist.training.keras_model import KerasArgument, StrategyModel
from simdist.variables.handles import adopted

__all__ = ["install"]

REFUSED = {
    Trainer: ["compile"],
    JAXTrainer: ["fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"],
}
"""The methods that use variables of a model by themselves."""
MADE_IN_SCOPE = "simdist_made_in_scope"


def install() -> None:
    """Refuse plain models of strategies. Done once."""
    if hasattr(Trainer.__init__, "__wrapped__"):
        return
    Trainer.__init__ = _noting(Trainer.__init__)
    for owner, names in REFUSED.items():
        for name in names:
            setattr(owner, name, _refusing(getattr(owner, name)))


def _noting(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def created(self: Trainer, *args: KerasArgument, **options: KerasArgument) -> None:
        original(self, *args, **options)
        if strategy_of_models() is not None:
            object.__setattr__(self, MADE_IN_SCOPE, True)

    return created


def _refusing(original: Callable[..., object]) -> Callable[..., object]:
    @wraps(original)
    def called(self: Trainer, *args: KerasArgument, **options: KerasArgument) -> object:
        if not isinstance(self, StrategyModel):
            _require_no_strategy(self, original.__name__)
        return original(self, *args, **options)

    return called


def _require_no_strategy(model: Trainer, caller: str) -> None:
    """Refuse a plain model that was made in a scope, has variables of a strategy, or is used in a scope."""
    variables: list[object] = getattr(model, "variables", [])
    is_inside = getattr(model, MADE_IN_SCOPE, False) or any(adopted(variable) is not None for variable in variables)
    if is_inside or strategy_of_models() is not None:
        where = "was made" if is_inside else f"is used ({caller})"
        raise FailedPreconditionError(
            f"{caller}: the model {getattr(model, 'name', '')!r} is one of plain Keras and {where} in strategy.scope(); Keras' own loop "
            f"would train it on one device. {MODELS_OF_STRATEGIES} Of a functional model that exists, such as one of keras.applications, "
            "make simdist.keras.Model(model.inputs, model.outputs) in the scope."
        )
