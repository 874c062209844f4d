"""What a reader of the Lab chooses, in a real browser: a moment, several commands, records, a task; with a mouse and with fingers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixture_pages import bundle, chromium_browser, fixture_page, why_not
from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

CRASHES = "await source.send('plan', { faults: ['worker:1', 'worker:2', 'worker:4'].map((task) => ({ kind: 'crash', task, at: 0.01 })) });"


class Hand:
    """Touches the screen of a page: ``touchStart``, ``touchMove`` with all fingers that are down, ``touchEnd``."""

    def __init__(self, page: Page) -> None:
        self.session = page.context.new_cdp_session(page)

    def __call__(self, kind: str, *places: tuple[float, float]) -> None:
        points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(places)]
        self.session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


@pytest.fixture(scope="module")
def shared_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    path: Path = bundle(tmp_path_factory.mktemp("fixtures"))
    with chromium_browser() as browser, fixture_page(browser, path, has_touch=True) as page:
        yield page


@pytest.fixture
def page(shared_page: Page) -> Page:
    """A Lab with a crash and a slow worker, at 24.3 ms."""
    shared_page.mouse.move(2, 2)
    run(shared_page, "await broken(); source.setView([0, 0.025]); await wait(80)")
    return shared_page


def run(page: Page, script: str) -> Any:
    return page.evaluate(f"(async () => {{ {script} }})()")


def asked(page: Page) -> list[tuple[str, dict[str, Any]]]:
    found = page.evaluate("source.asked.splice(0).map(({ verb, args }) => [verb, args])")
    return [(verb, args) for verb, args in found]


def has_drawn_over(page: Page) -> bool:
    """Whether anything is drawn over the plot."""
    script = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((byte) => byte > 0)"
    return page.locator(".sdw-over").evaluate(script)


@pytest.fixture
def hand(page: Page) -> Iterator[Hand]:
    hand = Hand(page)
    yield hand
    hand.session.detach()


def test_fork_parts_where_a_click_has_chosen_a_moment(page: Page) -> None:
    plot = page.locator(".sdw-plot")
    box = plot.bounding_box()
    assert box is not None
    asked(page)
    plot.click(position={"x": box["width"] * 0.4, "y": 5})
    page.mouse.move(5, 5)
    fork = page.get_by_role("button", name="Fork", exact=True)
    assert re.search(r"the same up to (9\.9|10\.0)\d* ms", fork.get_attribute("title") or "")
    assert page.locator(".sdw-at-pinned").is_visible()
    fork.click()
    ((verb, args),) = asked(page)
    assert (verb, args["t_s"]) == ("fork", pytest.approx(0.01, rel=0.02))


def test_fork_is_at_the_present_where_no_moment_is_chosen(page: Page) -> None:
    plot = page.locator(".sdw-plot")
    plot.click(position={"x": 60, "y": 5})
    plot.press("Escape")
    page.mouse.move(5, 5)
    assert not page.locator(".sdw-at-pinned").is_visible()
    asked(page)
    page.get_by_role("button", name="Fork", exact=True).click()
    assert asked(page) == [("fork", {"t_s": 0.0243, "without": []})]


def test_several_commands_are_left_out_of_one_fork(page: Page) -> None:
    run(page, CRASHES)
    asked(page)
    several = page.locator(".sdw-console").get_by_role("button", name="What if not these")
    assert several.count() == 0
    page.get_by_role("checkbox", name="Leave out: Crash of worker:4").check()
    page.get_by_role("checkbox", name="Leave out: Crash of worker:1").first.check()
    run(page, "source.advance(0.0001); await wait(50)")
    assert several.inner_text() == "What if not these 2?"
    several.click()
    page.wait_for_timeout(50)
    assert [(verb, args["without"]) for verb, args in asked(page)] == [("fork", [0, 4])]
    assert page.locator(".sdw-leave-out:checked").count() == 0


def test_records_selected_from_python_are_framed_and_escape_forgets_them(page: Page) -> None:
    assert not has_drawn_over(page)
    run(page, "source.setSelection([3, 4, 5]); await wait(60)")
    assert has_drawn_over(page)
    page.locator(".sdw-plot").press("Escape")
    page.wait_for_timeout(60)
    assert page.evaluate("source.selection()") == []
    assert not has_drawn_over(page)


def test_a_task_that_is_chosen_in_one_view_is_chosen_in_the_other(page: Page) -> None:
    page.locator(".sdw-task[aria-label^='worker:5']").click()
    page.keyboard.press("Escape")
    page.wait_for_timeout(60)
    assert page.locator(".sdw-lanes .sdw-current").all_inner_texts() == ["worker:5"]
    page.locator(".sdw-plot").focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_timeout(60)
    assert page.locator(".sdw-lanes .sdw-current").all_inner_texts() == ["worker:6"]
    chosen = page.locator(".sdw-task.sdw-chosen")
    assert [label.split(": ")[0] for label in chosen.evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")] == ["worker:6"]


def test_two_fingers_zoom_the_timeline(page: Page, hand: Hand) -> None:
    box = page.locator(".sdw-plot").bounding_box()
    assert box is not None
    y, middle = box["y"] + 20, box["x"] + box["width"] / 2
    hand("touchStart", (middle - 50, y), (middle + 50, y))
    for spread in (60, 80, 100):
        hand("touchMove", (middle - spread, y), (middle + spread, y))
    hand("touchEnd")
    page.wait_for_timeout(80)
    start, end = [float(part) for part in (page.locator(".sdw-timeline").get_attribute("data-view") or "").split(",")]
    assert (start + end) / 2 == pytest.approx(0.0125, rel=0.02)
    assert end - start == pytest.approx(0.0125, rel=0.02)


def test_a_finger_that_rests_on_a_task_opens_its_menu(page: Page, hand: Hand) -> None:
    task = page.locator(".sdw-task[aria-label^='worker:5']").bounding_box()
    assert task is not None
    place = (task["x"] + task["width"] / 2, task["y"] + task["height"] / 2)
    hand("touchStart", place)
    page.locator(".sdw-card:visible").wait_for(timeout=3_000)
    hand("touchEnd")
    page.wait_for_timeout(100)
    assert page.locator(".sdw-card h4:visible").all_inner_texts() == ["worker:5"]


def test_a_moment_that_is_none_is_marked_until_it_is_changed(page: Page) -> None:
    field, error = page.locator(".sdw-moment"), page.locator(".sdw-transport .sdw-error")
    field.fill("soon")
    field.press("Enter")
    assert (field.get_attribute("aria-invalid"), error.is_visible()) == ("true", True)
    field.fill("")
    assert field.get_attribute("aria-invalid") is None
    field.press("Enter")
    assert (field.get_attribute("aria-invalid"), error.is_visible()) == ("false", False)


@pytest.mark.parametrize("state", ["finished", "failed"])
def test_strip_is_full_when_the_run_is_over(page: Page, state: str) -> None:
    run(page, f"source.over.state = '{state}'; source.advance(0)")
    assert page.locator(".sdw-elapsed").evaluate("node => node.style.width") == "100%"


def test_closures_that_wait_are_counted_once_where_none_is_known_by_number(page: Page) -> None:
    run(page, "source.over.queue = { waiting: 9, in_flight: 1, closures: [{ number: 3, worker: 'worker:0' }] }; source.advance(0)")
    page.get_by_role("tab", name="Queue").click()
    assert page.locator(".sdw-queue").inner_text().split() == ["1", "closure", "runs", "#3", "worker:0", "9", "closures", "wait"]


def test_there_is_no_next_closure_where_steps_belong_to_none(page: Page) -> None:
    button = page.get_by_role("button", name="closure", exact=True)
    run(page, "source.over = { steps: 0, closures: 0, queue: null }; source.advance(0)")
    assert button.is_enabled(), "it may have some later"
    run(page, "source.over = { steps: 30, closures: 0, queue: null }; source.advance(0)")
    assert (button.is_enabled(), button.get_attribute("title")) == (False, "The steps of this program belong to no closure")
    asked(page)
    page.locator(".sdw-figure").click()
    page.keyboard.press("c")
    assert asked(page) == []


def test_a_pending_fault_says_when_it_begins(page: Page) -> None:
    run(
        page,
        "const task = 'worker:1', kind = 'crash';"
        "source.over.commands = [{ at_s: 0.03, fault: { kind, task }, python: '', status: 'pending' }];"
        "const planned = (fault) => ({ description: kind, status: 'pending', fired_s: null, healed_s: null, fault });"
        "source.over.faults = [{ kind, task }, { kind, task, at: 0.04 }, { kind, task, after_steps: 9 }].map(planned); source.advance(0)",
    )
    said = page.locator(".sdw-faults li > .sdw-quiet").all_inner_texts()
    assert said == ["pending, at 30 ms", "pending, at 40 ms", "pending, after 9 steps"]


def test_a_console_without_a_lab_says_which_run_it_shows_and_leads_back(page: Page) -> None:
    run(
        page,
        "const div = document.createElement('div'); div.id = 'line'; document.body.append(div); simdist.mountBranchLine(div, source);",
    )
    line = page.locator("#line .sdw-branch-line")
    assert line.is_hidden()
    run(page, "await source.send('fork', { t_s: 0.02, without: [0] })")
    assert line.inner_text() == "fork 1, a fork of main at 20 ms show main"
    asked(page)
    line.get_by_role("button", name="show main").click()
    assert asked(page) == [("select_branch", {"branch": 0})]
    run(page, "document.getElementById('line').remove()")


def test_a_double_click_breaks_one_thing(page: Page) -> None:
    run(page, "source.isSilent = true")
    asked(page)
    page.locator(".sdw-task[aria-label^='worker:5']").click()
    page.locator(".sdw-card").get_by_role("button", name="Crash", exact=True).dblclick()
    page.keyboard.press("Escape")
    page.locator(".sdw-console").get_by_role("button", name="Inject", exact=True).dblclick()
    assert [verb for verb, _ in asked(page)] == ["inject", "inject"]
