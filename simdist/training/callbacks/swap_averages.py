"""`keras.callbacks.SwapEMAWeights` under strategies.

An optimizer's moving averages lie beside the weights, on the tasks that hold them, and the optimizer shows them there
(`simdist.variables.slots`), so Keras' class can swap them. This one also swaps back after `predict`, which Keras' leaves out.

Where replicas have weights of their own (`sync_every`), all of them evaluate the mean of their averages; then each gets its own weights
and averages back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from simdist.program.arrays import HostArray
from simdist.strategies.synchronous import SynchronousStrategy
from simdist.training.keras_model import Logs, StrategyModel
from simdist.variables.handles import adopted
from simdist.variables.variable import Variable

__all__ = ["SwapEMAWeights"]


class SwapEMAWeights(keras.callbacks.SwapEMAWeights):
    """Evaluates with the moving averages of the weights, which an optimizer with ``use_ema=True`` keeps; trains with the weights.

    Args:
        swap_on_epoch: whether the averages are in the model at the end of each epoch, too, for callbacks that come after this one
            (`ModelCheckpoint`); default False.

    Raises:
        ValueError: when it is first used, and the optimizer keeps no averages.
    """

    _ema_weights_in_model: bool

    def __init__(self, swap_on_epoch: bool = False) -> None:
        super().__init__(swap_on_epoch)
        self._of_replicas: dict[int, list[HostArray]] = {}  # what each replica had, by the identity of a variable

    def on_predict_end(self, logs: Logs | None = None) -> None:
        """The weights come back."""
        if self._ema_weights_in_model:
            self._swap_variables()
            self._ema_weights_in_model = False

    def _backend_swap_variables(self, optimizer: Any) -> None:
        model: object = self.model
        strategy = model.simdist_strategy if isinstance(model, StrategyModel) else None
        if strategy is None:
            super()._backend_swap_variables(optimizer)
            return
        weights, averages = (_local(of) for of in (optimizer._trainable_variables, optimizer._model_variables_moving_average))
        with strategy.temporarily():
            if not self._ema_weights_in_model:
                self._of_replicas |= {id(variable): variable.placement.store.local_values(variable) for variable in (*weights, *averages)}
            with strategy.reading_alone():
                super()._backend_swap_variables(optimizer)
            if self._ema_weights_in_model:
                for variable in (*weights, *averages):
                    variable.placement.store.assign_local(variable, self._of_replicas.pop(id(variable)))
            elif isinstance(strategy, SynchronousStrategy) and strategy.launched and not strategy.evaluates_alone:
                self._agree(strategy, weights, averages)

    def _agree(self, strategy: SynchronousStrategy, weights: Sequence[Variable], averages: Sequence[Variable]) -> None:
        """Let all mains have the mean of the averages of all replicas in the place of the weights, and that of the weights in theirs."""
        for one, other in (*zip(weights, averages, strict=True), *zip(averages, weights, strict=True)):
            one.placement.store.assign_local(one, self._of_replicas[id(other)])
        strategy.agree([*weights, *averages])


def _local(variables: Sequence[Any]) -> list[Variable]:
    """Those of which each replica has a copy that may differ from the others."""
    found = [variable for one in variables if (variable := adopted(one)) is not None]
    return [variable for variable in found if variable.placement.spread == "replicas"]
