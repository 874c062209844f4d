"""Answers that the exercises are tried with: some rows for each exercise, and hostile ones for all of them.

The rows of a lesson are in `rows/lesson_NN.py`, in a dict `ROWS` from the name of each exercise to its `Rows`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "rows"


@dataclass(frozen=True)
class Rows:
    """What one exercise accepts, and what it says about other answers.

    Args:
        right: answers that are accepted.
        wrong: answers that are not, each with words that the message must have; at least three.
        slow: an attempt takes a large part of a second, or more.
    """

    right: list[Any]
    wrong: list[tuple[Any, str]]
    slow: bool = field(default=False)


class Grumpy:
    """Raises whenever it can."""

    def _raise(self, *_: Any) -> Any:
        raise RuntimeError("I do not want to")

    __eq__ = __bool__ = __len__ = __iter__ = __repr__ = __str__ = __float__ = __int__ = __index__ = __lt__ = __le__ = _raise
    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name} either")


def raising(*_: Any, **__: Any) -> Any:
    return 1 / 0


def ending(*_: Any, **__: Any) -> Any:
    sys.exit(3)


def leaving(*_: Any, **__: Any) -> Any:
    sys.exit()


def generating() -> Any:
    yield 1


def holding_itself() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


HOSTILE: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "nan": lambda: float("nan"),
    "infinity": lambda: float("-inf"),
    "numpy nan": lambda: np.float64("nan"),
    "huge whole number": lambda: 10**5000,
    "huge negative": lambda: -(10**400),
    "huge float": lambda: 1e308,
    "complex": lambda: 3 + 4j,
    "true": lambda: True,
    "empty text": lambda: "",
    "long text": lambda: "words " * 500,
    "bytes": lambda: b"15",
    "empty list": list,
    "nested list": lambda: [[1, 2], [3]],
    "list of a million": lambda: list(range(1_000_000)),
    "list that holds itself": holding_itself,
    "dict": lambda: {"steps": 15},
    "set": lambda: {15},
    "array": lambda: np.arange(3),
    "empty array": lambda: np.zeros((0, 3)),
    "array of objects": lambda: np.array([None, "a"], dtype=object),
    "class": lambda: int,
    "module": lambda: np,
    "object that raises": Grumpy,
    "list of objects that raise": lambda: [Grumpy()],
    "function that raises": lambda: raising,
    "function that ends the process": lambda: ending,
    "function that returns nothing": lambda: lambda *_, **__: None,
    "function that returns nonsense": lambda: lambda *_, **__: "nonsense",
    "function without arguments": lambda: lambda: 1,
    "function that ends the process as if all were well": lambda: leaving,
    "exception": lambda: ValueError("wrong"),
    "generator": generating,
}


def rows_of(lesson: str) -> dict[str, Rows]:
    """The rows of a lesson by the names of its exercises; none if its file is missing."""
    path = FOLDER / f"{lesson}.py"
    if not path.is_file():
        return {}
    spec = importlib.util.spec_from_file_location(f"rows_of_{lesson}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ROWS
