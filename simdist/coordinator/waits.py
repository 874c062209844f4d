"""Callers that wait for the same thing: for room in the queue, or until nothing is pending."""

from __future__ import annotations

from collections.abc import Callable

from simdist.runtime.base import Engine, Promise

__all__ = ["Waits"]


class Waits:
    """Those who wait for something; each looks again when they are let go.

    Args:
        engine: whose callers they are.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._promises: list[Promise] = []

    def wait(self, what: str | Callable[[], str]) -> None:
        """Block until `let_go` is called."""
        promise = self.engine.promise()
        self._promises.append(promise)
        promise.wait(what)

    def let_go(self) -> None:
        """Let all of them go on."""
        promises, self._promises = self._promises, []
        for promise in promises:
            promise.open()
