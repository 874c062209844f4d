"""What Keras' callbacks have counted in a training, so that they go on counting after a restore.

A backup knows a callback again by its class and what it monitors, and by its number among those that have both in common: other callbacks
may stand before it, or in another order. A callback of the user's own takes part with the methods ``state_dict()`` and
``load_state_dict(state)``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

import keras
import numpy as np

from simdist.checkpoint.parts import Stateful

__all__ = ["counts_of", "named", "set_counts"]

Counts: TypeAlias = Any
"""Numbers by the names of a callback's attributes; or the state that it gives itself."""

ARRAY = "array of a callback"
"""The key of the numbers of an array, which no log has as its name."""

ATTRIBUTES: dict[type[keras.callbacks.Callback], tuple[str, ...]] = {
    keras.callbacks.EarlyStopping: ("wait", "best", "best_epoch", "stopped_epoch"),
    keras.callbacks.ReduceLROnPlateau: ("wait", "best", "cooldown_counter"),
    keras.callbacks.ModelCheckpoint: ("best", "epochs_since_last_save", "_batches_seen_since_last_saving", "_last_batch_seen"),
    keras.callbacks.History: ("epoch", "history"),
    keras.callbacks.SwapEMAWeights: ("_ema_weights_in_model",),
    keras.callbacks.TensorBoard: ("_steps_before", "_steps_done", "_written"),
}


def named(callbacks: Iterable[keras.callbacks.Callback]) -> dict[str, keras.callbacks.Callback]:
    """The callbacks that count, by the names under which a backup has what they have counted.

    Args:
        callbacks: of a training.

    Example:
        >>> found = keras.callbacks
        >>> list(named([found.LambdaCallback(), *(found.EarlyStopping(monitor) for monitor in ("loss", "mae", "loss"))]))
        ["EarlyStopping('loss')", "EarlyStopping('mae')", "EarlyStopping('loss') number 2"]
    """
    numbers: Counter[str] = Counter()
    found: dict[str, keras.callbacks.Callback] = {}
    for callback in callbacks:
        kind = _kind(callback)
        if kind is not None:
            numbers[kind] += 1
            found[kind if numbers[kind] == 1 else f"{kind} number {numbers[kind]}"] = callback
    return found


def counts_of(callback: keras.callbacks.Callback) -> Counts:
    """What a callback has counted, which is one that counts."""
    if isinstance(callback, Stateful):
        return callback.state_dict()
    return {name: _packed(vars(callback)[name]) for name in _attributes(callback) if name in vars(callback)}


def set_counts(callback: keras.callbacks.Callback, counts: Counts) -> None:
    """Let a callback go on from what one of its name has counted."""
    if isinstance(callback, Stateful):
        callback.load_state_dict(counts)
    else:
        vars(callback).update({name: _unpacked(counts[name]) for name in _attributes(callback) if name in counts})


def _kind(callback: keras.callbacks.Callback) -> str | None:
    """What tells a callback from others; None of one that counts nothing that we know of."""
    name, monitor = type(callback).__name__, getattr(callback, "monitor", None)
    if isinstance(callback, Stateful):
        return f"{name}.state_dict()"
    if not _attributes(callback):
        return None
    return name if monitor is None else f"{name}({monitor!r})"


def _attributes(callback: keras.callbacks.Callback) -> tuple[str, ...]:
    return next((names for kind, names in ATTRIBUTES.items() if isinstance(callback, kind)), ())


def _packed(value: Any) -> Any:
    """Plain data with arrays, such as the logs of a metric that is a vector, as plain data that tells arrays from lists."""
    if isinstance(value, np.ndarray):
        return {ARRAY: value.tolist(), "dtype": str(value.dtype), "shape": list(value.shape)}
    return _each(value, _packed)


def _unpacked(value: Any) -> Any:
    """What `_packed` was given."""
    if isinstance(value, dict) and cast("dict[str, Any]", value).keys() == {ARRAY, "dtype", "shape"}:
        return np.array(value[ARRAY], value["dtype"]).reshape(value["shape"])
    return _each(value, _unpacked)


def _each(value: Any, function: Callable[[Any], Any]) -> Any:
    """A list or dict of what a function makes of its values; anything else as it is."""
    if isinstance(value, list):
        return [function(one) for one in cast("list[Any]", value)]
    return {name: function(one) for name, one in cast("dict[str, Any]", value).items()} if isinstance(value, dict) else value
