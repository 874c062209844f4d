"""The names that `import simdist as sd` gives: all listed, in one order, each with words of its own."""

from __future__ import annotations

import inspect
from enum import EnumType
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


NO_EXAMPLE = {
    "spare_the_collector": "an example would change the collector of the process that runs all examples",
    "errors": "errors are raised by what has the examples",
    "caches": "what a process keeps differs from run to run",
    "keras": "the classes are those of Keras",
}
ROOMS = [name for name in sd.__all__ if isinstance(getattr(sd, name), ModuleType) and name not in NO_EXAMPLE]
SHOWN = [(room, name) for room in ("", *ROOMS) for name in (getattr(sd, room) if room else sd).__all__ if name not in NO_EXAMPLE]


@pytest.mark.parametrize(("room", "name"), SHOWN)
def test_what_can_be_called_has_an_example(room: str, name: str) -> None:
    value = getattr(getattr(sd, room) if room else sd, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert "Example:\n" in (text := inspect.getdoc(value) or "") and ">>> " in text


@pytest.mark.parametrize("kind", [value for value in map(sd.__dict__.get, sd.__all__) if isinstance(value, EnumType)])
def test_members_of_an_enumeration_are_explained(kind: EnumType) -> None:
    assert all(f"{name}: " in (inspect.getdoc(kind) or "") for name in kind.__members__)
