"""Pictures of lessons whose numbers a student has changed: nothing is cut off, and no name lies on another."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from classroom import load_plots, marks, rounds, saving_pictures
from matplotlib.figure import Figure

from simdist.hardware import Exponential, Jitter, NoJitter, TwoPoint


@pytest.fixture(autouse=True)
def figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the functions return the figures themselves."""
    for module in (load_plots, marks, saving_pictures):
        monkeypatch.setattr(module, "picture_of", drawn)


def drawn(figure: Figure) -> Figure:
    figure.canvas.draw()
    return figure


@pytest.mark.parametrize("factor", [1e-3, 1.0, 7.0, 1e4])
def test_axes_of_times_hold_every_dot(factor: float) -> None:
    times = {"rows": {1000: 0.07 * factor, 10_000: 0.08 * factor}, "the whole table": {1000: 0.3 * factor, 10_000: 256.0 * factor}}
    figure: Any = load_plots.picture_of_tables(times)
    (panel,) = figure.axes
    low, high = panel.get_ylim()
    assert all(low < ms < high for of_lookup in times.values() for ms in of_lookup.values())
    assert sum(low <= tick <= high for tick in panel.get_yticks()) >= 4


def looks(panel: Any) -> list[tuple[Any, ...]]:
    """What tells the lines, dots and bars of a legend apart, their colours left out."""
    handles, _ = panel.get_legend_handles_labels()
    bars = [(part.patches[0].get_hatch(),) for part in handles if hasattr(part, "patches")]
    lines = [part for part in handles if not hasattr(part, "patches")]
    return [*bars, *((repr(line._dash_pattern), line.get_linewidth(), line.get_marker()) for line in lines)]


def test_colour_is_not_the_only_sign_in_a_picture() -> None:
    times = {count: float(count) for count in (1, 2, 4)}
    three = {f"{number}": times for number in range(3)}
    losses = {"nothing": [1.0], "the optimizer": [1.5], "the place": [1.7]}
    runs = {f"{number}": [(0.0, 0.0), (1.0, 2.0 + number)] for number in range(4)}
    pictures: list[Any] = [
        load_plots.picture_of_tables(three),
        load_plots.picture_of_load({name: np.ones(4) for name in three}, three),
        load_plots.picture_of_rounds({(name, 0.5): times for name in three}, dict.fromkeys((2, 4, 8), times), lambda n, p, hot: n + p, 8),
        marks.window_picture(np.linspace(1.0, 1.14, 20), np.ones((20, 2)), np.ones((20, 2))),
        saving_pictures.parting_picture([3.0, 2.0, 1.0], losses),
        saving_pictures.progress_picture("", runs),
    ]
    for panel in (panel for picture in pictures for panel in picture.axes):
        found = looks(panel)
        assert len(set(found)) == len(found), panel.get_title(loc="left")


@pytest.mark.parametrize("slow_s", [3.0, 30.0])
def test_a_legend_of_savings_lies_on_no_bar_and_on_no_text(slow_s: float) -> None:
    rows = {"chief": (5.0, 5.0), "owners": (0.8, 0.8), "a slow disk": (slow_s, slow_s), "a slow disk, async": (0.0, slow_s)}
    figure: Any = saving_pictures.standstill_picture(rows)
    (panel,) = figure.axes
    legend = panel.get_legend().get_window_extent()
    assert not any(legend.overlaps(part.get_window_extent()) for part in [*panel.patches, *panel.texts])


@pytest.mark.parametrize("last", [1.14, 2.5, 6.0])
def test_names_of_moments_do_not_overlap(last: float) -> None:
    moments = np.linspace(1.0, last, 20)
    figure: Any = marks.window_picture(moments, np.ones((20, 2)), np.ones((20, 2)))
    for panel in figure.axes:
        boxes = [text.get_window_extent() for text in panel.texts]
        assert not any(first.overlaps(second) for first, second in pairwise(boxes))


@pytest.mark.parametrize("jitter", [TwoPoint(1.0, 20.0, probability=0.05), Exponential(), NoJitter()])
def test_the_rule_of_bounds_follows_the_jitter_that_the_lesson_names(monkeypatch: pytest.MonkeyPatch, jitter: Jitter) -> None:
    monkeypatch.setattr(rounds, "RARELY_SLOW", jitter)
    cluster = rounds.make_cluster(8, jitter, "off")
    rounds.count_steps(cluster, 8 * 200, mode="bounded", staleness=2)
    assert rounds.by_the_rule(2) == pytest.approx(200 / cluster.now, rel=0.15)


def test_a_legend_of_what_is_missing_stays_in_its_panel() -> None:
    losses = {name: [1.0 + number, 1.5] for number, name in enumerate(("nothing", "the optimizer", "the rows", "the random streams"))}
    figure: Any = saving_pictures.parting_picture([3.0, 1.0, 1.5], losses)
    figure.draw_without_rendering()  # lays it out
    panel = figure.axes[1]
    legend = panel.get_legend().get_window_extent()
    assert panel.bbox.x0 <= legend.x0 < legend.x1 <= panel.bbox.x1


def test_no_moment_crosses_out_the_legend_of_a_window() -> None:
    figure: Any = marks.window_picture(np.linspace(1.0, 1.14, 20), np.ones((20, 2)), np.ones((20, 2)))
    frame = figure.axes[1].get_legend().get_frame()
    assert frame.get_visible() and frame.get_alpha() == 1.0
