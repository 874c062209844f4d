"""The views of the Lab in a real browser, on made-up runs: keys, clicks, drags, touch, and what is asked of the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fixture_pages import bundle, chromium_browser, fixture_page, why_not
from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

HOSTILE = "</script><b id='hit'>\"'" + "x" * 10_000
Opened = Callable[..., Page]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle(tmp_path_factory.mktemp("fixtures"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def usual_page(browser: Browser, path: Path) -> Iterator[Page]:
    """One page for all tests whose reader wants nothing particular; each begins with a Lab of its own."""
    with fixture_page(browser, path) as page:
        yield page


@pytest.fixture
def opened(browser: Browser, path: Path, usual_page: Page) -> Iterator[Opened]:
    """Opens the page, runs a script in it, and gives the page."""
    with ExitStack() as stack:

        def open_page(script: str = "await broken()", **reader: Any) -> Page:
            page = stack.enter_context(fixture_page(browser, path, **reader)) if reader else usual_page
            page.mouse.move(2, 2)
            run(page, script)
            page.wait_for_timeout(60)  # the first frames
            return page

        yield open_page


def run(page: Page, script: str) -> Any:
    return page.evaluate(f"(async () => {{ {script} }})()")


def asked(page: Page) -> list[tuple[str, dict[str, Any]]]:
    """What the views have asked for since the last look, apart from what `broken` did."""
    found = page.evaluate("source.asked.splice(0).map(({ verb, args }) => [verb, args])")
    return [(verb, args) for verb, args in found if args.get("fault", {}).get("at") is None]


def texts(page: Page, selector: str) -> list[str]:
    return page.locator(selector).all_inner_texts()


def view(page: Page, number: int = 0) -> list[float]:
    return [float(part) for part in (page.locator(".sdw-timeline").nth(number).get_attribute("data-view") or "").split(",")]


def test_keys_run_the_cluster_from_anywhere_in_the_lab(opened: Opened) -> None:
    page = opened()
    asked(page)
    page.locator(".sdw-plot").focus()
    for key in ("s", "c", "]", "[", "f", " ", " ", "r"):
        page.keyboard.press(key)
        page.wait_for_timeout(10)
    verbs = asked(page)
    assert [verb for verb, _ in verbs] == ["step", "step", "set_pace", "set_pace", "fork", "play", "pause", "seek"]
    assert [args for _, args in verbs[:4]] == [{"steps": 1}, {"closures": 1}, {"pace": 0.02}, {"pace": 0.01}]
    assert verbs[-1][1] == {"t_s": 0}
    assert not page.locator(".sdw-transport .sdw-keys").is_visible()
    page.keyboard.press("?")
    assert page.locator(".sdw-transport .sdw-keys").is_visible()


def test_keys_in_a_field_are_text(opened: Opened) -> None:
    page = opened()
    asked(page)
    field = page.locator(".sdw-console input").first
    field.fill("")
    field.press_sequentially("s c.")
    assert field.input_value() == "s c."
    assert asked(page) == []


def test_large_figures_and_the_timeline_follow_the_run(opened: Opened) -> None:
    page = opened("lab()")
    assert texts(page, ".sdw-figure") == ["0.000"]
    run(page, "source.obey('play', {}); clearInterval(source.timer); source.advance(0.12)")
    page.wait_for_timeout(60)
    assert (texts(page, ".sdw-figure"), texts(page, ".sdw-run-state")) == (["120.000"], ["playing"])
    start, end = view(page)
    assert end - start == pytest.approx(0.05)
    assert start < 0.12 < end < 0.13


def test_timeline_stays_where_the_reader_has_gone_until_follow_is_pressed(opened: Opened) -> None:
    page = opened("lab().advance(0.12)")
    page.locator(".sdw-plot").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(60)
    before = view(page)
    run(page, "source.advance(0.05)")
    page.wait_for_timeout(60)
    assert view(page) == before
    page.get_by_role("button", name="Follow the present").click()
    page.wait_for_timeout(60)
    assert view(page)[0] < 0.17 < view(page)[1]


def test_dragging_the_strip_goes_there_and_says_before_what_going_back_costs(opened: Opened) -> None:
    page = opened()
    asked(page)
    box = page.locator(".sdw-strip").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 5)
    assert "runs on to here" in page.locator(".sdw-bubble").inner_text()
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 5, steps=4)
    assert "computed again" in page.locator(".sdw-bubble").inner_text()
    assert asked(page) == []
    page.mouse.up()
    ((verb, args),) = asked(page)
    assert (verb, args["t_s"]) == ("seek", pytest.approx(0.01, rel=0.02))
    page.wait_for_timeout(60)
    assert texts(page, ".sdw-figure") == [f"{args['t_s'] * 1000:.3f}"]
    assert page.locator(".sdw-timeline").get_attribute("aria-label", timeout=500) is not None


def test_strip_is_a_slider_for_the_keyboard(opened: Opened) -> None:
    page = opened()
    asked(page)
    page.locator(".sdw-strip").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    ((verb, args),) = asked(page)
    assert (verb, args["t_s"]) == ("seek", pytest.approx(0.0243 - 2 * 0.05 / 50))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    page.wait_for_timeout(400)
    assert asked(page) == []


def test_a_click_on_a_task_says_what_it_does_and_breaks_it(opened: Opened) -> None:
    page = opened()
    asked(page)
    page.locator(".sdw-task[aria-label^='worker:5']").click()
    card = page.locator(".sdw-card")
    assert card.locator("h4").inner_text() == "worker:5"
    assert card.locator(".sdw-act").all_inner_texts() == ["Crash", "Pause", "Slow", "Lose host", "Partition …", "Drop …"]
    card.get_by_role("button", name="Crash", exact=True).click()
    page.wait_for_timeout(60)
    assert asked(page) == [("inject", {"fault": {"kind": "crash", "task": "worker:5"}})]
    assert card.is_hidden()
    run(page, "source.advance(0.001)")
    assert page.locator(".sdw-task[data-state=down]").count() == 2


def test_parameters_of_a_fault_are_entered_beside_the_task(opened: Opened) -> None:
    page = opened()
    asked(page)
    page.locator(".sdw-task[aria-label^='worker:5']").click()
    page.get_by_role("button", name="Parameters of slow").click()
    page.locator(".sdw-break-form input").first.fill("-1")
    page.get_by_role("button", name="Slow now").click()
    assert "factor must be more than 0" in page.locator(".sdw-card .sdw-error:visible").inner_text()
    assert asked(page) == []
    page.locator(".sdw-break-form input").first.fill("2.5")
    page.get_by_role("button", name="Slow now").click()
    page.wait_for_timeout(30)
    assert asked(page) == [("inject", {"fault": {"kind": "slow", "factor": 2.5, "task": "worker:5"}})]


def test_tasks_are_reached_and_opened_by_the_keyboard(opened: Opened) -> None:
    page = opened()
    focused = "document.activeElement.getAttribute('aria-label')"
    page.locator(".sdw-task[tabindex='0']").focus()
    assert page.evaluate(focused).startswith("chief:0")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    name = page.evaluate(focused).split(":")[0:2]
    assert name[0] == "worker"
    page.keyboard.press("Enter")
    assert page.locator(".sdw-card").is_visible()
    page.keyboard.press("Escape")
    assert page.locator(".sdw-card").is_hidden()
    assert page.evaluate(focused).split(":")[0:2] == name


def test_a_tap_opens_a_task_on_a_narrow_screen_without_anything_cut_off(opened: Opened) -> None:
    page = opened("await broken({ workers: 5 })", width_px=390, height_px=800, has_touch=True)
    page.locator(".sdw-task[aria-label^='worker:2']").tap()
    box = page.locator(".sdw-card").bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_what_is_refused_is_said_at_its_control_until_something_succeeds(opened: Opened) -> None:
    page = opened()
    run(page, "source.refusal = 'The session is closed.'")
    page.get_by_role("button", name="Inject", exact=True).click()
    errors = page.locator(".sdw-error:visible")
    assert errors.all_inner_texts() == ["The session is closed."]
    assert page.locator(".sdw-console .sdw-error:visible").count() == 1
    run(page, "source.refusal = ''")
    page.get_by_role("button", name="Inject", exact=True).click()
    page.wait_for_timeout(30)
    assert errors.count() == 0


def test_a_kernel_that_does_not_answer_is_said_to_be_silent(opened: Opened) -> None:
    page = opened("", color_scheme="dark")
    page.clock.install()
    run(page, "await broken(); source.isSilent = true")
    page.get_by_role("button", name="Fork").click()
    assert page.locator(".sdw-transport [aria-busy=true]").count() == 1
    page.clock.fast_forward(5000)
    assert "has not answered yet" in page.locator(".sdw-transport .sdw-error").inner_text()


def test_the_moment_pointed_at_is_the_same_in_all_views(opened: Opened) -> None:
    page = opened()
    value = page.locator(".sdw-chart strong").first
    last = value.inner_text()
    page.locator(".sdw-plot").hover(position={"x": 150, "y": 20})
    page.wait_for_timeout(60)
    assert page.locator(".sdw-at-cursor").is_visible()
    assert value.inner_text() != last
    page.mouse.move(5, 5)
    page.wait_for_timeout(60)
    assert page.locator(".sdw-at-cursor").is_hidden()
    assert value.inner_text() == last


def test_a_zoomed_view_is_shared_by_timelines_and_charts(opened: Opened) -> None:
    page = opened()
    run(page, "source.setView([0.005, 0.015])")
    page.wait_for_timeout(150)
    assert view(page) == [0.005, 0.015]
    page.locator(".sdw-plot").focus()
    page.keyboard.press("+")
    page.wait_for_timeout(320)
    start, end = page.evaluate("source.view()")
    assert end - start == pytest.approx(0.01 / 1.5)


def test_timelines_that_stand_side_by_side_go_together(opened: Opened) -> None:
    page = opened("await broken(); await source.send('fork', { t_s: 0.0243, without: [0] })")
    page.get_by_label("Compare with").select_option("0")
    page.locator(".sdw-plot").first.focus()
    page.keyboard.press("0")
    page.keyboard.press("+")
    page.wait_for_timeout(330)
    assert view(page, 0) == view(page, 1) != [0, 0.05]
    page.get_by_role("button", name="Follow the present").nth(1).click()
    page.wait_for_timeout(330)
    assert view(page, 0) == view(page, 1) == [0, 0.05]


def test_a_click_beside_everything_gives_the_lab_its_keys(opened: Opened) -> None:
    page = opened()
    asked(page)
    page.locator(".sdw-states").click(position={"x": 300, "y": 4})
    page.keyboard.press(".")
    assert asked(page) == [("step", {"events": 1})]


def test_a_lab_that_is_taken_away_leaves_nothing_behind(opened: Opened) -> None:
    page = opened()
    run(page, "clear(); source.advance(0.01); await wait(150)")
    assert page.evaluate("place.querySelectorAll('*').length") <= 1
    assert page.evaluate("[...source.listeners.known.values()].every((set) => set.size === 0)")


def test_branches_stand_side_by_side_with_their_first_difference(opened: Opened) -> None:
    page = opened()
    assert page.locator(".sdw-branches").is_hidden()
    page.get_by_role("button", name="What if not?").first.click()
    page.wait_for_timeout(60)
    assert texts(page, ".sdw-branch strong") == ["main", "fork 1"]
    assert texts(page, ".sdw-faults .sdw-fault-name") == ["Slow of worker:3"]
    page.get_by_label("Compare with").select_option("0")
    page.wait_for_timeout(120)
    assert page.locator(".sdw-timeline").count() == 2
    assert page.locator(".sdw-at-difference:visible").count() == 2
    assert "same until" in page.locator(".sdw-comparison").inner_text()
    assert view(page, 0) == view(page, 1)


def test_what_a_fault_has_cost_stands_below_it(opened: Opened) -> None:
    page = opened()
    page.get_by_role("button", name="What did it cost?").first.click()
    assert texts(page, ".sdw-recovery .sdw-sum td") == ["the run ends later by", "", "+2.19 ms"]


def test_a_plan_is_kept_as_text_and_used_again(opened: Opened) -> None:
    page = opened()
    page.get_by_text("as text").click()
    page.get_by_role("button", name="Write down this run's").click()
    area = page.get_by_label("Faults as JSON")
    assert '"kind": "crash"' in area.input_value()
    asked(page)
    page.get_by_role("button", name="Inject all of these").click()
    ((verb, args),) = page.evaluate("source.asked.splice(0).map(({ verb, args }) => [verb, args])")
    assert (verb, [fault["kind"] for fault in args["faults"]]) == ("plan", ["crash", "slow"])
    area.fill("{")
    page.get_by_role("button", name="Inject all of these").click()
    assert "This is no JSON" in page.locator(".sdw-as-text .sdw-error").inner_text()


def test_a_recorded_run_is_looked_at_and_not_played(opened: Opened) -> None:
    page = opened("await broken({ canControl: false })")
    buttons = page.locator(".sdw-transport button:not([title^='Keys'])")
    assert all(button.is_disabled() for button in buttons.all())
    assert "Open its notebook" in page.locator(".sdw-transport .sdw-note").inner_text()
    page.locator(".sdw-task").nth(4).click()
    assert page.locator(".sdw-act").count() == 0
    assert page.locator(".sdw-console .sdw-go").count() == 0


def test_hostile_names_are_text_and_short(opened: Opened) -> None:
    page = opened(
        f"const name = {HOSTILE!r}; const layout = simdist.fixtureLayout(6);"
        "const tasks = layout.tasks.map((task, i) => i === 4 ? { ...task, name: 'worker:' + name, job: name, host: name } : task);"
        "const faults = [{ ...layout.faults[0], kind: name, says: name }];"
        "lab({ layout: { ...layout, tasks, faults } }, { message: name, output: name, log: [name], branches: [0, 1].map((number) => ({"
        " number, name, now_s: 0.02, state: 'paused', commands: 0, forked_from: number ? 0 : null, forked_at_s: 0.01 })),"
        " faults: [{ description: name, status: 'fired', fired_s: 0.01, healed_s: null, fault: { kind: name } }] }).advance(0.02)"
    )
    page.locator(".sdw-task").nth(4).click()
    page.locator(".sdw-plot").hover(position={"x": 40, "y": 150})
    assert page.locator("#hit").count() == 0
    assert page.evaluate("Math.max(...[...document.querySelectorAll('[title]')].map((node) => node.title.length))") <= 300
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_very_many_tasks_are_cells_that_can_be_pointed_at(opened: Opened) -> None:
    page = opened("await broken({ workers: 600 })")
    page.locator(".sdw-grid").click(position={"x": 5, "y": 5})
    assert page.locator(".sdw-card h4").inner_text() == "chief:0"
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.locator(".sdw-card h4").inner_text() == "ps:0"


def test_messages_stand_still_between_two_states_under_reduced_motion(opened: Opened) -> None:
    play = (
        "await broken(); source.obey('play', {}); clearInterval(source.timer);"
        "source.advance(0.0053); await wait(60); source.advance(0.0004);"
    )
    moved = (
        "const dots = () => [...document.querySelectorAll('.sdw-dot')].map((dot) => dot.getAttribute('transform')).join();"
        "const first = dots(); if (!first) throw new Error('no messages');"
        "await new Promise(requestAnimationFrame); await wait(30); return dots() !== first"
    )
    still = opened("", reduced_motion="reduce")
    assert run(still, play + moved) is False
    lively = opened("", reduced_motion="no-preference")
    assert run(lively, play + moved) is True
