"""Listeners of checkpoints: they are called before and after each, and can end the training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

__all__ = ["CheckpointSaverListener", "checked_listeners"]


class CheckpointSaverListener:
    """What is called at each checkpoint of a training; a base class whose methods do nothing.

    The first argument of three of them is a session in TensorFlow; here it is None, as there are none.

    Example:
        >>> class Printing(CheckpointSaverListener):
        ...     def after_save(self, session, global_step_value):
        ...         print("saved", global_step_value)
        >>> Printing().after_save(None, 5)
        saved 5
    """

    def begin(self) -> None:
        """The training begins."""

    def before_save(self, session: None, global_step_value: int) -> None:
        """A checkpoint is about to be saved after so many steps."""

    def after_save(self, session: None, global_step_value: int) -> bool | None:
        """A checkpoint was saved; True ends the training."""

    def end(self, session: None, global_step_value: int) -> None:
        """The training has ended after so many steps."""


def checked_listeners(given: object) -> tuple[CheckpointSaverListener, ...]:
    """The listeners.

    Raises:
        TypeError: one is of another class, or they are in no list.
    """
    if given is None:
        return ()
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"saving_listeners is {given!r}; expected a list of sd.estimator.CheckpointSaverListener")
    listeners = cast("Sequence[object]", given)
    for listener in listeners:
        if not isinstance(listener, CheckpointSaverListener):
            raise TypeError(f"saving_listeners has {listener!r}; expected an sd.estimator.CheckpointSaverListener")
    return tuple(cast("Sequence[CheckpointSaverListener]", listeners))
