"""What every widget has that the package gives: a text, a picture, a page, and its place in the bundle."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import simdist_widgets as sw
from simdist_widgets.base import BaseWidget

FOLDER = Path(__file__).resolve().parents[2] / "widgets"
WIDGETS = [value for name in sw.__all__ if inspect.isclass(value := getattr(sw, name)) and issubclass(value, BaseWidget)]


@pytest.mark.parametrize("widget", WIDGETS)
def test_text_and_picture_are_its_own(widget: type[BaseWidget]) -> None:
    bases = widget.__mro__[: widget.__mro__.index(BaseWidget)]
    assert any("__repr__" in vars(base) for base in bases), "a stored notebook is compared by the text: give it a __repr__ in one line"
    assert any("picture" in vars(base) for base in bases), "places that run no widgets show the picture"


@pytest.mark.parametrize("widget", WIDGETS)
def test_page_has_its_script_and_its_traits(widget: type[BaseWidget]) -> None:
    assert (FOLDER / "src" / f"page_{widget.page_name}.ts").is_file()
    assert set(widget.page_traits) <= set(widget.class_trait_names())


@pytest.mark.parametrize("widget", WIDGETS)
def test_build_makes_its_bundle(widget: type[BaseWidget]) -> None:
    names = re.search(r"const WIDGETS = \[(.*?)\]", (FOLDER / "build.mjs").read_text(encoding="utf-8"), re.DOTALL)
    assert names is not None and f'"{widget.page_name}"' in names[1]
    assert (FOLDER / "simdist_widgets" / "static" / f"{widget.page_name}.js").is_file(), "run: npm run build, in widgets/"
