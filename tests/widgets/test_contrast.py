"""Marks are seen on every lane: 3 to 1 at least, as WCAG 2.2 asks of graphical objects (success criterion 1.4.11).

The colours of lanes are computed from the style sheet, with its defaults and with those of JupyterLab's themes.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import simdist_widgets
from simdist.trace.styles import MARK_STYLES, OTHER_MARK

THEME = (Path(simdist_widgets.__file__).parents[1] / "src" / "theme.css").read_text()
LEAST = 3.0
JUPYTERLAB = {  # --jp-layout-color1, --jp-ui-font-color0, --jp-brand-color1
    "JupyterLab Light": ("#ffffff", "#000000", "#1976d2"),
    "JupyterLab Dark": ("#212121", "#ffffff", "#2196f3"),
    "JupyterLab Dark, black": ("#111111", "#ffffff", "#319bf2"),
}


def defaults(block: str) -> tuple[str, str, str]:
    """Background, text and focus of one block of the style sheet."""
    return tuple(re.search(rf"--sdw-{name}: var\(--jp-[\w-]+, (#\w{{6}})\)", block)[1] for name in ("background", "text", "focus"))  # type: ignore[index,return-value]


def blocks() -> dict[str, str]:
    first, *others = re.findall(r"\.sdw \{(.*?)\}", THEME, re.DOTALL)
    return {"light": first} | {
        f"dark {number}": block for number, block in enumerate(block for block in others if "--sdw-text: var" in block)
    }


def percent(name: str) -> float:
    """How much of the text's or the focus's colour is mixed into a lane's."""
    return float(re.search(rf"--sdw-{name}: color-mix\(in srgb, var\(--sdw-\w+\) ([\d.]+)%, var\(--sdw-background\)\)", THEME)[1]) / 100  # type: ignore[index]


def channels(color: str) -> list[float]:
    return [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]


def mixed(color: str, share: float, background: str) -> list[float]:
    return [a * share + b * (1 - share) for a, b in zip(channels(color), channels(background), strict=True)]


def luminance(rgb: list[float]) -> float:
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in rgb]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: list[float], other: list[float]) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


THEMES = {name: defaults(block) for name, block in blocks().items()} | JUPYTERLAB
STYLES = {**MARK_STYLES, "unknown": OTHER_MARK}


def test_style_sheet_has_a_light_and_two_dark_blocks_of_colours() -> None:
    assert list(THEMES)[:3] == ["light", "dark 0", "dark 1"]
    assert THEMES["dark 0"] == THEMES["dark 1"] != THEMES["light"]


def test_contrast_of_black_and_white_is_21() -> None:
    assert contrast([0, 0, 0], [1, 1, 1]) == pytest.approx(21)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("category", STYLES)
def test_mark_is_seen_on_lanes(theme: str, category: str) -> None:
    background, text, focus = THEMES[theme]
    lanes = {"lane": mixed(text, percent("lane"), background), "chosen lane": mixed(focus, percent("chosen"), background)}
    mark = channels(STYLES[category].color)
    assert {name for name, lane in lanes.items() if contrast(mark, lane) < LEAST} == set()


@pytest.mark.parametrize("category", STYLES)
def test_sign_is_seen_on_its_mark(category: str) -> None:
    assert contrast(channels(STYLES[category].color), [1, 1, 1]) >= LEAST
