"""Pages that hold live widgets and need nothing else: no server, no kernel, no network.

The page carries its style sheet, the scripts of the widgets that it shows and their states. A script (src/page.ts) gives each widget
a model with anywidget's interface (get, set, on, off, save_changes). Where scripts are switched off, the static
pictures show instead. Text is escaped here; nothing that a trace or a caller says is ever taken as markup, except
what an object offers itself by `__html__` or `_repr_html_`.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from simdist.trace.atomic_file import replacing

STATIC = Path(__file__).parent / "static"
OWN_STYLE = {"lab", "topology", "fault_console"}  # widgets whose style sheets page.css does not hold: few pages have them
PARTS = {"lab": ("timeline", "topology", "fault_console", "uplot")}  # bundles that the script of a widget needs beside itself

PAGE_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0 auto; padding: 20px 24px 48px; max-width: 1180px;
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: #1b1f24; background: #ffffff; }
h1 { margin: 0 0 12px; font-size: 24px; line-height: 1.3; font-weight: 650; }
h2 { margin: 30px 0 8px; font-size: 18px; font-weight: 650; }
body > p { max-width: 75ch; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 22px 4px 0; text-align: left; vertical-align: top; border-bottom: 1px solid #d5dae0; }
th { font-weight: 500; color: #57606a; }
td.number { text-align: right; }
.facts td { text-align: left; }
.scroll { overflow-x: auto; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e9ed; background: #14181d; }
  th, td { border-color: #38414b; }
  th { color: #a3adb8; }
}
@media print { body { max-width: none; padding: 0; } }
"""


@runtime_checkable
class _Widget(Protocol):
    """A widget of this package."""

    page_name: ClassVar[str]

    def page_state(self) -> Mapping[str, Any]: ...
    def png(self) -> bytes: ...


@runtime_checkable
class _Markup(Protocol):
    """What brings its own HTML; some of it is text, too."""

    def __html__(self) -> str: ...


def export_page(path: str | Path, title: str, sections: Iterable[tuple[str, Any]]) -> Path:
    """Writes one page with headings, texts, tables of facts and live widgets.

    Args:
        path: the file to write; folders that are missing are made, an old file is replaced.
        title: the page's title and first heading.
        sections: pairs of a heading ("" for none) and what stands under it: a widget; a str, shown as text, with an
            empty line between paragraphs; a dict, shown as a table (a dict of dicts as a table with columns); or
            an object with `__html__` or `_repr_html_`, inserted as it is.

    Returns:
        The path of the file.

    Raises:
        TypeError: a section holds something else.
        ResourceExhaustedError: the disk is full; an old file stays whole.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> file = Path(tempfile.mkdtemp()) / "report.html"
        >>> "<td>3</td>" in export_page(file, "A run", [("Numbers", {"workers": "3"})]).read_text()
        True
    """
    path = Path(path)
    blocks: list[str] = []
    widgets: set[str] = set()
    for number, (heading, content) in enumerate(sections):
        if heading:
            blocks.append(f"<h2>{html.escape(heading)}</h2>")
        blocks.append(_block(content, f"simdist-state-{number}"))
        if isinstance(content, _Widget):
            widgets.add(content.page_name)
    with replacing(path) as file:
        file.write(_page(title, "\n".join(blocks), widgets).encode())
    return path


def _page(title: str, body: str, widgets: set[str]) -> str:
    styles = ["page.css"] * bool(widgets) + [f"{name}.css" for name in sorted(widgets & OWN_STYLE)]
    style = PAGE_STYLE + "".join(map(text_of, styles))
    parts = {part for name in widgets for part in PARTS.get(name, ())}
    scripts = [*sorted(parts), *sorted(widgets - parts)]  # the parts of a widget before itself
    script = f"<script>{''.join(text_of(f'page_{name}.js') for name in scripts)}</script>\n" if widgets else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{style}</style>\n</head>\n"
        f"<body>\n<h1>{html.escape(title)}</h1>\n{body}\n{script}</body>\n</html>\n"
    )


def text_of(name: str) -> str:
    """The text of a file of the front end.

    A class of widgets has texts: of a path anywidget keeps all widgets of the class for ever, to tell them when the file changes.
    """
    return (STATIC / name).read_text(encoding="utf-8")


def _block(content: Any, state_id: str) -> str:
    if isinstance(content, _Widget):
        return _widget(content, state_id)
    if isinstance(content, str) and not isinstance(content, _Markup):
        paragraphs = [part.strip() for part in content.split("\n\n") if part.strip()]
        return "\n".join(f"<p>{html.escape(part).replace(chr(10), '<br>')}</p>" for part in paragraphs)
    if isinstance(content, Mapping):
        return f'<div class="scroll">{_table(content)}</div>'
    for name in ("__html__", "_repr_html_"):
        if hasattr(content, name):
            return str(getattr(content, name)())
    raise TypeError(
        f"export_page: a section holds {type(content).__name__}; pass a widget, a str, a dict of facts, "
        "or an object with __html__ or _repr_html_."
    )


def _widget(widget: _Widget, state_id: str) -> str:
    # "<" is written as an escape, so that no text in the state can end the script element
    state = json.dumps(widget.page_state(), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    picture = base64.b64encode(widget.png()).decode("ascii")
    description = html.escape(repr(widget), quote=True)
    return (
        f'<div data-simdist-widget="{widget.page_name}" data-simdist-state="{state_id}"></div>\n'
        f'<script type="application/json" id="{state_id}">{state}</script>\n'
        f'<noscript><img alt="{description}" style="max-width:100%" src="data:image/png;base64,{picture}"></noscript>'
    )


def _table(facts: Mapping[Any, Any]) -> str:
    rows = list(facts.items())
    if rows and all(isinstance(value, Mapping) for _, value in rows):
        columns = list(dict.fromkeys(key for _, value in rows for key in value))
        head = "".join(f"<th>{html.escape(str(column))}</th>" for column in columns)
        lines = "".join(
            f"<tr><th>{html.escape(str(name))}</th>{''.join(_cell(value.get(column, '')) for column in columns)}</tr>"
            for name, value in rows
        )
        return f"<table><tr><th></th>{head}</tr>{lines}</table>"
    # one column of words and numbers: all begin at the same place
    return f'<table class="facts">{"".join(f"<tr><th>{html.escape(str(n))}</th>{_cell(v)}</tr>" for n, v in rows)}</table>'


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        if isinstance(value, Mapping):
            value = [f"{name} {part}" for name, part in value.items()]
        if isinstance(value, (list, tuple)):
            value = ", ".join(map(str, value))
        return f"<td>{html.escape(str(value))}</td>"
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
    return f'<td class="number">{text}</td>'
