"""What became of a restore: what was found, what was missing in the checkpoint, and what of it nobody wanted.

Taught in lesson 09.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["RestoreStatus"]


@dataclass
class RestoreStatus:
    """The outcome of `Checkpoint.restore`; its methods return it, so that they can be chained.

    Values of variables that do not exist yet wait for them: a model gets its weights when it is built.

    Attributes:
        path: of the checkpoint; None where there was none.
        restored: paths of what has its value from the checkpoint.
        missing: paths of what exists, and is not in the checkpoint.
        waiting: paths of what has no variables yet.
        superfluous: paths in the checkpoint that nothing has taken.

    Example:
        >>> RestoreStatus("ckpt-1", restored=["v"], missing=[], waiting=[], superfluous=["w"]).assert_consumed()
        Traceback (most recent call last):
        AssertionError: 'ckpt-1' has values that nothing has taken: w. ...
    """

    path: str | None
    restored: list[str] = field(default_factory=list[str])
    missing: list[str] = field(default_factory=list[str])
    waiting: list[str] = field(default_factory=list[str])
    superfluous: list[str] = field(default_factory=list[str])
    _is_answered: bool = field(default=False, init=False, repr=False)

    def assert_consumed(self) -> RestoreStatus:
        """Require that every value of the checkpoint was taken, and that everything that exists got one.

        Raises:
            AssertionError: not so; the message lists the paths.
        """
        self.assert_existing_objects_matched()
        if self.waiting:
            raise AssertionError(
                f"{_listed(self.waiting)}: the variables do not exist yet. Build the model before, with one batch or with build()."
            )
        if self.superfluous:
            raise AssertionError(
                f"{self.path!r} has values that nothing has taken: {_listed(self.superfluous)}. Give Checkpoint the objects that were "
                "saved, or say that the rest is not wanted: .expect_partial()."
            )
        return self

    def assert_existing_objects_matched(self) -> RestoreStatus:
        """Require that everything that exists got a value; the checkpoint may have more.

        Raises:
            AssertionError: not so.
        """
        self._is_answered = True
        if self.path is None:
            raise AssertionError("There was no checkpoint, so nothing was restored. Give restore a path, or let CheckpointManager choose.")
        if self.missing:
            raise AssertionError(
                f"{self.path!r} has no value for {_listed(self.missing)}. It is of another program, or of an earlier version of it."
            )
        return self

    def assert_nontrivial_match(self) -> RestoreStatus:
        """Require that something was restored.

        Raises:
            AssertionError: nothing was, and nothing waits.
        """
        self._is_answered = True
        if not self.restored and not self.waiting:
            raise AssertionError(f"{self.path!r} has nothing that this program has: it is of another one.")
        return self

    def expect_partial(self) -> RestoreStatus:
        """Say that values which are missing, or which nothing takes, are no mistake."""
        self._is_answered = True
        return self

    def __del__(self) -> None:
        parts = [("no value for", self.missing), ("values that nothing has taken", self.superfluous), ("no variables yet in", self.waiting)]
        if not self._is_answered and self.path is not None and any(paths for _, paths in parts):
            what = "; ".join(f"{text} {_listed(paths)}" for text, paths in parts if paths)
            warnings.warn(
                f"The checkpoint {self.path!r} was restored in part: {what}. If that is right, say .expect_partial(); "
                ".assert_consumed() raises instead.",
                stacklevel=2,
            )


def _listed(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:8])
    return shown if len(paths) <= 8 else f"{shown} and {len(paths) - 8} more"
