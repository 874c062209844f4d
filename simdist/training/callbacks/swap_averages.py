"""`keras.callbacks.SwapEMAWeights` under strategies.

An optimizer's moving averages lie beside the weights, on the tasks that hold them, and the optimizer shows them there
(`simdist.variables.slots`), so Keras' class can swap them. This one also swaps back after `predict`, which Keras' leaves out.
"""

from __future__ import annotations

import keras

from simdist.training.keras_model import Logs

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

    def on_predict_end(self, logs: Logs | None = None) -> None:
        """The weights come back."""
        if self._ema_weights_in_model:
            self._swap_variables()
            self._ema_weights_in_model = False
