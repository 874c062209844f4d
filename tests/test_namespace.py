"""The names that `import simdist as sd` gives: all listed, in one order, each with words of its own."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest

import simdist as sd


def test_names_are_listed_in_their_order_and_once() -> None:
    assert sd.__all__ == sorted(set(sd.__all__))


def test_everything_public_is_listed() -> None:
    public = {name for name, value in vars(sd).items() if not name.startswith("_") and not _is_a_room(value)}
    assert public == {name for name in sd.__all__ if not _is_a_room(getattr(sd, name))}


def _is_a_room(value: Any) -> bool:
    """A module; an import of one of a lower layer makes it an attribute of the package."""
    return isinstance(value, ModuleType)


@pytest.mark.parametrize("name", sd.__all__)
def test_name_is_documented(name: str) -> None:
    value = getattr(sd, name)
    text = inspect.getdoc(value) or ""
    assert len(text) > 20
    # What a class, an enumeration or a dataclass has by itself is no documentation.
    inherited = [base.__doc__ for base in getattr(value, "__mro__", ())[1:]]
    assert text not in map(inspect.cleandoc, filter(None, inherited)) and not text.startswith(f"{name}(")
