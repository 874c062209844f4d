"""The best weights that each `EarlyStopping` of a training keeps, as a part of a backup."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TypeGuard

import keras
import numpy as np

from simdist.program.arrays import Array, HostArray
from simdist.training.callback_counts import named
from simdist.training.position import TrainingPosition

__all__ = ["BestWeights"]


class BestWeights:
    """Saves and restores them, by the names of the callbacks; an `OwnState`.

    Args:
        position: of the training, which has the callbacks; what was saved is given back when all of them have begun.
    """

    def __init__(self, position: TrainingPosition) -> None:
        self.holder = self
        self._keepers = {name: callback for name, callback in named(position.callbacks).items() if _keeps(callback)}
        self._saved: dict[str, list[HostArray]] = {}
        position.when_begun(self._give_back)

    def arrays(self) -> Mapping[str, Array]:
        return {
            f"{name}/{number}": np.asarray(weight)
            for name, keeper in self._keepers.items()
            for number, weight in enumerate(keeper.best_weights or ())
        }

    def restore(self, arrays: Mapping[str, Array]) -> None:
        self._saved = {}
        for path in sorted(arrays, key=_number):
            self._saved.setdefault(path.rpartition("/")[0], []).append(np.asarray(arrays[path]))

    def _give_back(self) -> None:
        for name, keeper in self._keepers.items():
            if name in self._saved:
                keeper.best_weights = self._saved[name]
            elif keeper.best is not None:
                warnings.warn(
                    f"The backup has the best value that {name} had found, and not its weights: it was saved with "
                    "restore_best_weights=False. At the end there will be the best weights of later epochs only.",
                    stacklevel=2,
                )


def _keeps(callback: keras.callbacks.Callback) -> TypeGuard[keras.callbacks.EarlyStopping]:
    return isinstance(callback, keras.callbacks.EarlyStopping) and bool(callback.restore_best_weights)


def _number(path: str) -> int:
    return int(path.rpartition("/")[2])
