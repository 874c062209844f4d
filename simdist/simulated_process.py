"""One process of a simulated cluster: what is global to a Python process, and common to all code of one program.

A launched main is such a process, and so is the program of a session. What a program lets others run for it (closures on workers, their
datasets, code in an engine's own fibers) runs in other task contexts, and finds the same variables in ``os.environ``, the same generators
and the same module ``__main__`` there: it is a part of that program, as it is in a notebook.

What may live in this file: entering and leaving such a process. Which code belongs to it is the business of `process_state.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import cast

from simdist.global_generators import GlobalGenerators

__all__ = ["SimulatedProcess"]


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
        self._program: tuple[ModuleType, list[str]] | None = None
        self._outer_program: tuple[ModuleType, list[str]] | None = None

    def enter(self) -> None:
        """Make this the state of the Python process."""
        self._generators.enter()
        self._environ.enter()
        if self._program is not None:
            self._enter_program(self._program)

    def leave(self) -> None:
        """Keep what this process has changed, and give the Python process its state back."""
        self._generators.leave()
        self._environ.leave()
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


class _Variables:
    """The variables of ``os.environ`` that a process has on top of the others."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self._outer: dict[str, str | None] = {}
        self._before: dict[bytes, bytes] = {}
        self._entered: dict[bytes, bytes] = {}

    def enter(self) -> None:
        self._outer = {name: os.environ.get(name) for name in self._environ}
        self._before = _variables().copy()
        os.environ.update(self._environ)
        self._entered = _variables().copy()

    def leave(self) -> None:
        if _variables() != self._entered:
            self._keep_changes()
        for name, value in self._outer.items():
            if name not in os.environ:
                self._environ.pop(name, None)
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def _keep_changes(self) -> None:
        for key, value in _variables().items():
            before = self._before.get(key)
            if before != value:
                name = os.fsdecode(key)
                self._environ[name] = os.fsdecode(value)
                self._outer.setdefault(name, None if before is None else os.fsdecode(before))
        for key in self._before.keys() - _variables().keys():  # the process has deleted it: the others still have it
            self._outer.setdefault(os.fsdecode(key), os.fsdecode(self._before[key]))


def _variables() -> dict[bytes, bytes]:
    """The variables of the process as they lie in ``os.environ``: to copy all of them by its methods takes a fifth of a millisecond."""
    return cast("dict[bytes, bytes]", os.environ._data)  # type: ignore[attr-defined]
