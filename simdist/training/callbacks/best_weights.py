"""The best weights that an `EarlyStopping` keeps, as a part of a backup."""

from __future__ import annotations

from collections.abc import Mapping

import keras
import numpy as np

from simdist.program.arrays import Array
from simdist.training.position import TrainingPosition

__all__ = ["BestWeights"]


class BestWeights:
    """Saves and restores them; an `OwnState`.

    Args:
        callback: that keeps them.
        position: of the training; gives them back when all callbacks have begun.
    """

    def __init__(self, callback: keras.callbacks.EarlyStopping, position: TrainingPosition) -> None:
        self.holder = callback
        self.position = position

    def arrays(self) -> Mapping[str, Array]:
        return {str(number): np.asarray(weight) for number, weight in enumerate(self.holder.best_weights or ())}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        best = [np.asarray(arrays[str(number)]) for number in range(len(arrays))]

        def give_back() -> None:
            self.holder.best_weights = best

        self.position.when_begun(give_back)
