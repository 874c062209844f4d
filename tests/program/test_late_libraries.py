"""A library of variables that is imported while a scope is open: the scope owns its variables, or says what to write."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError
from simdist.program import scope as scopes
from simdist.program.scope import Scope, add_library, opened, require_libraries


class Tracked:
    """A library that notes the scopes that are open."""

    def __init__(self) -> None:
        self.open: list[Scope] = []

    @contextmanager
    def opened(self, scope: Scope) -> Iterator[None]:
        self.open.append(scope)
        try:
            yield
        finally:
            self.open.pop()


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Tracked:
    """A library that is added where the module "late_library" has been imported."""
    found: Any = Tracked()
    monkeypatch.setattr(scopes, "libraries", [])
    monkeypatch.setattr(scopes, "late_libraries", {"late_library": lambda: add_library(found)})
    return found


def test_a_library_that_adds_itself_takes_part_in_the_scope_that_is_open(library: Any) -> None:
    scope: Any = SimpleNamespace()
    with opened(scope), opened(scope):
        add_library(library)
        require_libraries()
        assert library.open == [scope, scope]
    assert library.open == []


@pytest.mark.parametrize("ended_by", ["a variable", "the end of the scope"])
def test_a_library_that_is_only_imported_there_is_refused(ended_by: str, library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = sd.MirroredStrategy(2)
    with pytest.raises(FailedPreconditionError, match="Write `from simdist import keras` first"), strategy.scope():
        monkeypatch.setitem(sys.modules, "late_library", ModuleType("late_library"))
        if ended_by == "a variable":
            sd.Variable(1.0)
            raise AssertionError("the variable was made")
    with strategy.scope():
        sd.Variable(1.0)
        assert library.open == [strategy]
    assert library.open == []


def test_an_error_inside_of_the_scope_is_not_replaced(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="of the user"), sd.MirroredStrategy(2).scope():
        monkeypatch.setitem(sys.modules, "late_library", ModuleType("late_library"))
        raise ValueError("of the user")


LAUNCHED = """
import sys
import simdist as sd

assert "keras" not in sys.modules


def main():
    strategy = sd.MultiWorkerMirroredStrategy()
    with strategy.scope():
        {line}
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.25))
        v = sd.Variable([1.0, 2.0])

    def replica():
        optimizer.apply_gradients([(2.0 * v.value / 2, v)])

    sd.function(lambda: strategy.run(replica))()
    return v.numpy().tolist()


run = sd.Cluster({{"worker": 2}}).launch(main)
try:
    run.join()
    print(run.results)
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("import keras", "FailedPreconditionError Keras was imported for the first time while strategy.scope() was open"),
        ("from simdist import keras", "{'worker:0': [0.5, 1.0], 'worker:1': [0.5, 1.0]}"),
    ],
)
def test_launched_mains_that_import_keras_in_their_scope(line: str, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", LAUNCHED.format(line=line)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(printed)
