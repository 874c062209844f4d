"""One picture of all views of the Lab: every state that matters, light and dark, wide and narrow. To be looked at.

python tests/browser/contact_sheet.py sheet.png [SCENE ...]
"""

from __future__ import annotations

import base64
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fixture_pages import bundle, chromium_browser, fixture_page, why_not
from playwright.sync_api import Browser

SETTLE_MS = 250


@dataclass(frozen=True)
class Scene:
    """One state: the script that brings it about, in a page of a width."""

    script: str
    width_px: int = 1280
    reader: dict[str, Any] = field(default_factory=dict)
    themes: tuple[str, ...] = ("light", "dark")


CLICK_A_TASK = "document.querySelectorAll('.sdw-task')[4].dispatchEvent(new MouseEvent('click', { bubbles: true }))"
HOSTILE = "</script><b>\"'" + "very long " * 1000
SCENES = {
    "empty": Scene("lab()"),
    "broken": Scene(f"await broken(); {CLICK_A_TASK}"),
    "wide": Scene("await broken({ workers: 16 })", 1680),
    "compared": Scene(
        "await broken(); await source.send('fork', { t_s: 0.03, without: [0] });"
        "const select = document.querySelector('.sdw-compare select'); select.value = '0'; select.dispatchEvent(new Event('change'))",
        1680,
    ),
    "phone": Scene("await broken({ workers: 5 })", 400, {"has_touch": True}),
    "many tasks": Scene("await broken({ workers: 150 })", themes=("light",)),
    "grid": Scene("await broken({ workers: 600 })", themes=("dark",)),
    "refused": Scene(
        "await broken(); source.refusal = \"task='worker:99' is not known. Did you mean 'worker:9'?\";"
        "document.querySelector('.sdw-console .sdw-go').click(); document.querySelectorAll('.sdw-transport-right button')[1].click()"
    ),
    "failed": Scene(
        "await broken(); Object.assign(source.over, { state: 'failed', message: 'UnavailableError: ps:0 is down.' });"
        "source.advance(0); document.querySelectorAll('[role=tab]')[3].click()",
        themes=("light",),
    ),
    "recorded": Scene(
        "await broken({ end_s: 0.0243, canControl: false }); document.querySelectorAll('[role=tab]')[1].click()", themes=("light",)
    ),
    "hostile": Scene(
        "const layout = simdist.fixtureLayout(6); const name = " + repr(HOSTILE) + ";"
        "const tasks = layout.tasks.map((task, i) => i === 4 ? { ...task, name: 'worker:' + name } : task);"
        "lab({ layout: { ...layout, tasks } }, { message: name, output: name, log: [name] }).advance(0.02);" + CLICK_A_TASK,
        themes=("light",),
    ),
    "forced": Scene("await broken()", reader={"forced_colors": "active"}, themes=("dark",)),
}


def shot(browser: Browser, page_path: Path, scene: Scene, theme: str) -> bytes:
    """The picture of a scene in its whole length."""
    with fixture_page(browser, page_path, scene.width_px, 900, color_scheme=theme, **scene.reader) as page:
        page.evaluate(f"(async () => {{ {scene.script} }})()")
        page.wait_for_timeout(SETTLE_MS)
        return page.screenshot(full_page=True)


def main(arguments: list[str]) -> int:
    """The command line; returns the exit status."""
    reason = why_not()
    if not arguments or reason:
        print(reason or __doc__)
        return 2
    target, wanted = Path(arguments[0]), arguments[1:] or list(SCENES)
    figures: list[str] = []
    with tempfile.TemporaryDirectory() as folder, chromium_browser() as browser:
        path = bundle(Path(folder))
        for name in wanted:
            for theme in SCENES[name].themes:
                picture = base64.b64encode(shot(browser, path, SCENES[name], theme)).decode()
                figures.append(
                    f'<figure><figcaption>{name}, {theme}</figcaption><img width="100%" src="data:image/png;base64,{picture}"></figure>'
                )
        columns = min(3, len(figures))
        sheet = browser.new_page(viewport={"width": 40 + columns * 800, "height": 600})
        style = f"body {{ display: grid; grid-template-columns: repeat({columns}, 1fr); font: 20px sans-serif }} figure {{ margin: 8px }}"
        sheet.set_content(f"<style>{style}</style>{''.join(figures)}")
        sheet.screenshot(path=target, full_page=True)
    print(f"wrote {target}: {len(figures)} pictures")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
