"""One process of a simulated cluster: what is global to a Python process, and common to all code of one program.

A launched main is such a process, and so is the program of a session. What a program lets others run for it (closures on workers, their
datasets, code in an engine's own fibers) runs in other task contexts, and finds the same variables in ``os.environ``, the same generators,
the same settings of Keras and the same module ``__main__`` there: it is a part of that program, as it is in a notebook. Variables and
settings begin with those that the Python process has.

What may live in this file: entering and leaving such a process. Which code belongs to it is the business of `process_state.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, cast

from simdist.global_generators import GlobalGenerators

__all__ = ["SimulatedProcess"]

KERAS_CONFIG = "keras.src.backend.config"
# The settings of Keras that lie in its module of settings; the others are among its global state, of which each task has its own.
KERAS_SETTINGS = ("_FLOATX", "_EPSILON", "_IMAGE_DATA_FORMAT", "_MAX_EPOCHS", "_MAX_STEPS_PER_EPOCH")


class SimulatedProcess:
    """What is global to one process of a simulated cluster.

    Args:
        environ: variables that it sees in ``os.environ`` on top of those of the Python process.
        seed: what its generators of ``random`` and ``numpy.random`` begin with.

    Example:
        >>> process = SimulatedProcess({"SIMDIST_EXAMPLE": "1"}, seed=0)
        >>> process.enter()
        >>> os.environ["SIMDIST_EXAMPLE"]
        '1'
        >>> process.leave()
        >>> "SIMDIST_EXAMPLE" in os.environ
        False
    """

    def __init__(self, environ: Mapping[str, str], seed: int) -> None:
        self._environ = _Variables(environ)
        self._generators = GlobalGenerators(seed)
        self._keras = _KerasSettings()
        self._program: tuple[ModuleType, list[str]] | None = None
        self._outer_program: tuple[ModuleType, list[str]] | None = None

    def enter(self) -> None:
        """Make this the state of the Python process."""
        self._generators.enter()
        self._environ.enter()
        self._keras.enter()
        if self._program is not None:
            self._enter_program(self._program)

    def leave(self) -> None:
        """Keep what this process has changed, and give the Python process its state back."""
        self._generators.leave()
        self._environ.leave()
        self._keras.leave()
        if self._outer_program is not None:
            self._leave_program(self._outer_program)

    def become_program(self, module: ModuleType, argv: Sequence[str]) -> None:
        """From now on, this module is ``__main__`` in this process, which is entered, and these words are in ``sys.argv``."""
        assert self._program is None
        self._program = module, list(argv)
        self._enter_program(self._program)

    def _enter_program(self, program: tuple[ModuleType, list[str]]) -> None:
        self._outer_program = sys.modules["__main__"], sys.argv
        sys.modules["__main__"], sys.argv = program

    def _leave_program(self, outer: tuple[ModuleType, list[str]]) -> None:
        assert self._program is not None
        # The program may have put another module there, or none.
        self._program = sys.modules.get("__main__") or self._program[0], sys.argv
        (sys.modules["__main__"], sys.argv), self._outer_program = outer, None


class _KerasSettings:
    """The floating-point type, epsilon, image format and limits of runs that a process has set."""

    def __init__(self) -> None:
        self._inner: dict[str, Any] = {}
        self._outer: dict[str, Any] | None = None

    def enter(self) -> None:
        config = sys.modules.get(KERAS_CONFIG)
        if config is not None:
            self._outer = _settings(config)
            vars(config).update(self._inner)

    def leave(self) -> None:
        config = sys.modules.get(KERAS_CONFIG)
        if config is not None:
            self._inner = _settings(config)
            vars(config).update(_as_imported(config) if self._outer is None else self._outer)
            self._outer = None


def _settings(config: ModuleType) -> dict[str, Any]:
    values = vars(config)
    return {name: values[name] for name in KERAS_SETTINGS if name in values}


def _as_imported(config: ModuleType) -> dict[str, Any]:
    """The settings that Keras had when it was imported, which a process has done that was entered before: as its file of settings says."""
    file: dict[str, Any] = vars(config).get("_config", {})
    return {
        "_FLOATX": file.get("floatx", "float32"),
        "_EPSILON": file.get("epsilon", 1e-7),
        "_IMAGE_DATA_FORMAT": file.get("image_data_format", "channels_last"),
    }


class _Variables:
    """The variables of ``os.environ`` that a process has on top of the others; None: it has deleted that variable."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ: dict[str, str | None] = dict(environ)
        self._outer: dict[str, str | None] = {}
        self._before: dict[bytes, bytes] = {}
        self._entered: dict[bytes, bytes] = {}

    def enter(self) -> None:
        self._outer = {name: os.environ.get(name) for name in self._environ}
        self._before = _variables().copy()
        for name, value in self._environ.items():
            _set(name, value)
        self._entered = _variables().copy()

    def leave(self) -> None:
        if _variables() != self._entered:
            self._keep_changes()
        for name, value in self._outer.items():
            _set(name, value)

    def _keep_changes(self) -> None:
        variables = _variables()
        for key in self._entered.keys() | variables.keys():
            if self._entered.get(key) != variables.get(key):
                name = os.fsdecode(key)
                self._environ[name] = os.environ.get(name)
                before = self._before.get(key)
                self._outer.setdefault(name, None if before is None else os.fsdecode(before))


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _variables() -> dict[bytes, bytes]:
    """The variables of the process as they lie in ``os.environ``: to copy all of them by its methods takes a fifth of a millisecond."""
    return cast("dict[bytes, bytes]", os.environ._data)  # type: ignore[attr-defined]
