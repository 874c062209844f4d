"""Where progress is shown: a line of a terminal that is written again and again, a line of a notebook, or one line at the end of an epoch.

Nothing is shown where outputs of a notebook are stored or compared (SIMDIST_STATIC_PICTURES=1, nbval): real times differ from one time to
the next.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from keras.src.utils import io_utils

__all__ = ["Display", "Notebook", "Nothing", "Plain", "Terminal", "display_here"]


class Display(Protocol):
    """Where lines are shown.

    Attributes:
        interval_s: real seconds between two lines that follow each other in one place; None: only what is final is shown.
    """

    @property
    def interval_s(self) -> float | None: ...

    def show(self, line: str) -> None:
        """Show how far it is, in the place of the line before."""
        ...

    def end(self, line: str) -> None:
        """Show a line that stays."""
        ...


class Plain:
    """One line an epoch, as in a file."""

    interval_s = None

    def show(self, line: str) -> None:
        """Not shown."""

    def end(self, line: str) -> None:
        io_utils.print_msg(line)


class Nothing:
    """Shows nothing."""

    interval_s = None

    def show(self, line: str) -> None:
        """Not shown."""

    def end(self, line: str) -> None:
        """Not shown."""


class Terminal:
    """A line that is written over; it is cut to the columns of the terminal, as one that is broken could not be."""

    interval_s = 0.1

    def __init__(self, columns: Callable[[], int] = lambda: shutil.get_terminal_size().columns) -> None:
        self.columns = columns
        self._shown = 0

    def show(self, line: str) -> None:
        line = line[: max(self.columns() - 1, 1)]
        self._write(line)
        self._shown = len(line)

    def end(self, line: str) -> None:
        self._write(line)
        io_utils.print_msg("")
        self._shown = 0

    def _write(self, line: str) -> None:
        io_utils.print_msg(f"\r{line.ljust(self._shown)}", line_break=False)


class Notebook:
    """An output of a notebook's cell that is updated in place: the lines that stay, and the present one.

    Args:
        display: IPython's function.
    """

    interval_s = 0.25

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None
        self._lines: list[str] = []

    def show(self, line: str) -> None:
        content = {"text/plain": "\n".join([*self._lines, line])}
        if self._handle is None:
            self._handle = self._display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def end(self, line: str) -> None:
        self.show(line)
        self._lines.append(line)


def display_here(verbose: int, alone: bool, environment: Mapping[str, str] = os.environ) -> Display:
    """The display for a call.

    Args:
        verbose: as given to the call: 0 (nothing), 1 (a bar) or 2 (a line an epoch).
        alone: whether no other main shows lines in the same place at the same time.
        environment: tells where outputs are stored or compared.
    """
    if not verbose or (_is_kernel() and _is_stored(environment)):
        return Nothing()
    if verbose == 2 or not alone or not io_utils.is_interactive_logging_enabled():
        return Plain()
    if type(sys.stdout).__module__.startswith("ipykernel"):  # not in a session, nor in a main, which have outputs of their own
        from IPython.display import display

        return Notebook(display)
    return Terminal() if getattr(sys.stdout, "isatty", bool)() else Plain()


def _is_kernel() -> bool:
    """Whether this process is the kernel of a notebook."""
    loaded = sys.modules.get("IPython")
    return hasattr(None if loaded is None else loaded.get_ipython(), "kernel")


def _is_stored(environment: Mapping[str, str]) -> bool:
    """Whether the outputs of this kernel are stored, or compared with stored ones by nbval, whose kernels pytest starts."""
    return environment.get("SIMDIST_STATIC_PICTURES") == "1" or "PYTEST_VERSION" in environment or "PYTEST_CURRENT_TEST" in environment
