"""Parts of simdist whose packages are not installed say what to install."""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Callable
from typing import Any

import pytest

import simdist as sd
from simdist import keras
from simdist.extras import needs
from simdist.trace import Trace


def keras_namespace() -> Any:
    assert keras.__file__
    return runpy.run_path(keras.__file__)


def widgets() -> Any:
    return importlib.import_module("simdist_widgets")


@pytest.mark.parametrize(
    ("package", "extra", "use"),
    [
        ("keras", "keras", keras_namespace),
        ("pandas", "lab", lambda: Trace().to_dataframe()),
        ("matplotlib", "lab", lambda: Trace().timeline()),
        ("tensorboard", "tensorboard", lambda: keras.callbacks.TensorBoard("never")),
        ("anywidget", "lab", widgets),
    ],
    ids=["keras", "pandas", "matplotlib", "tensorboard", "anywidget"],
)
def test_missing_package_of_an_extra_says_how_to_get_it(
    package: str, extra: str, use: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in (package, "simdist_widgets")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"needs the package {package}: pip install 'simdist\[{extra}\]'"):
        use()


def test_missing_module_of_our_own_is_no_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named"), needs("A part", "lab"):
        importlib.import_module("simdist.not_there")


def test_another_backend_is_no_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keras would look for it first: "needs the package torch" was the error."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "keras"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    with pytest.raises(sd.errors.FailedPreconditionError, match=r"KERAS_BACKEND is 'torch', but simdist computes with JAX\. Unset it"):
        keras_namespace()
