"""What Keras' callbacks have counted in a training, so that they go on counting after a restore.

A callback of the user's own takes part with the methods ``state_dict()`` and ``load_state_dict(state)``.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import keras

from simdist.checkpoint.parts import Stateful

__all__ = ["counts_of", "set_counts"]

Counts: TypeAlias = dict[str, Any]
"""Numbers by the names of a callback's attributes; or the state that it gives itself."""

ATTRIBUTES: dict[type[keras.callbacks.Callback], tuple[str, ...]] = {
    keras.callbacks.EarlyStopping: ("wait", "best", "best_epoch", "stopped_epoch"),
    keras.callbacks.ReduceLROnPlateau: ("wait", "best", "cooldown_counter"),
    keras.callbacks.ModelCheckpoint: ("best", "epochs_since_last_save", "_batches_seen_since_last_saving", "_last_batch_seen"),
    keras.callbacks.History: ("epoch", "history"),
    keras.callbacks.SwapEMAWeights: ("_ema_weights_in_model",),
}


def counts_of(callback: keras.callbacks.Callback) -> Counts | None:
    """What a callback has counted; None of one that counts nothing that we know of."""
    if isinstance(callback, Stateful):
        return {"kind": "own", "state": callback.state_dict()}
    names = _names(callback)
    return {"kind": type(callback).__name__, **{name: vars(callback)[name] for name in names if name in vars(callback)}} if names else None


def set_counts(callback: keras.callbacks.Callback, counts: Counts) -> None:
    """Let a callback go on from there; counts of another callback are left alone."""
    if isinstance(callback, Stateful):
        if counts.get("kind") == "own":
            callback.load_state_dict(counts["state"])
    elif counts.get("kind") == type(callback).__name__:
        vars(callback).update({name: counts[name] for name in _names(callback) if name in counts})


def _names(callback: keras.callbacks.Callback) -> tuple[str, ...]:
    return next((names for kind, names in ATTRIBUTES.items() if isinstance(callback, kind)), ())
