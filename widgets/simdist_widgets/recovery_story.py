"""`Recovery`: a failure's story on one page, from the fault to the end of the run, against the exact run without it.

Two bars on one axis: the run with its phases, and the run without the fault. Below them each phase with its seconds and its
cost; the costs sum to the difference of the two ends. It is plain HTML, which needs neither a kernel nor a script.

Taught in lesson 12.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, cast

from simdist.errors import InvalidArgumentError
from simdist.session import Command, Phase, Session, recovery
from simdist.trace.atomic_file import replacing

__all__ = ["Recovery"]

WIDTH, LEFT, BAR, GAP = 860, 110, 26, 14
COLORS = {
    "detection": "#b35900",
    "decision": "#7b3fa0",
    "restoration": "#d1423f",
    "reading": "#0f7b6c",
    "catching up": "#0072b2",
    "afterwards": "#7a8ca0",
}
MOST_TEXT = 300
CELL = 'style="text-align:left;padding:2px 14px 2px 0;font-weight:inherit"'


class Recovery:
    """What a fault has cost.

    Args:
        session: whose; where it is not over, a fork of it runs to its end.
        fault: a command of the session; default its last one.

    Attributes:
        story: the figures, as `sd.recovery` gives them.

    Raises:
        TypeError: it was given a program or a cluster, and no session.
        InvalidArgumentError: the session has no such command, or none at all.

    Example:
        >>> import simdist as sd
        >>> def program(cluster):
        ...     chief = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        ...     for _ in range(6):
        ...         chief.schedule(lambda: sd.sleep(1.0))
        ...     chief.join()
        >>> session = sd.Session(program, sd.Cluster({"worker": 2, "ps": 1}))
        >>> session.advance(until=1.5)
        >>> crash = session.inject({"kind": "crash", "task": "worker:1", "restart_after": 0.25})
        >>> print(str(Recovery(session)).splitlines()[0])
        fault          crash('worker:1', at=1.5)
    """

    def __init__(self, session: Session, fault: Command | None = None) -> None:
        if not isinstance(cast(object, session), Session):
            raise TypeError(
                f"Recovery was given a {type(session).__name__}, and tells of an sd.Session, whose run can be repeated without its fault: "
                "Recovery(sd.Session(program, cluster)), after session.inject({...})."
            )
        if fault is None and not session.commands:
            raise InvalidArgumentError("The session has no command, so nothing has a cost. Inject a fault first: session.inject({...}).")
        self.story = recovery(session, session.commands[-1] if fault is None else fault)

    def __repr__(self) -> str:
        return str(self.story)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self.html()}

    def export_html(self, path: str | Path) -> Path:
        """Write a page that opens anywhere; returns its path."""
        path = Path(path)
        title = escape(_cut(self.story.fault))
        page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><body>{self.html()}</body></html>\n'
        with replacing(path) as file:
            file.write(page.encode())
        return path

    def html(self) -> str:
        """The page's part: the bars and the table."""
        rows = "".join(
            f"<tr><th {CELL}>{_swatch(name)}{escape(name)}</th><td {CELL}>{escape(_cut(text))}</td></tr>"
            for name, text in self.story.rows()
        )
        table = f'<table style="font:13px system-ui;font-variant-numeric:tabular-nums;border-collapse:collapse">{rows}</table>'
        return f'<figure style="margin:0;max-width:{WIDTH}px">{"".join(self._svg())}{table}</figure>'

    def _svg(self) -> Iterator[str]:
        story = self.story
        if not story.phases:
            return
        last_s = max(story.end_s, story.end_without_s)
        scale = (WIDTH - LEFT - 10) / last_s if last_s > 0.0 else 0.0
        height = 2 * BAR + GAP + 30
        label = f"The run {story.state} at {story.end_s:.6f} s, without the fault at {story.end_without_s:.6f} s."
        yield f'<svg viewBox="0 0 {WIDTH} {height}" width="100%" role="img" aria-label="{escape(label)}" style="font:12px system-ui">'
        yield _text(0, BAR * 0.7, "the run")
        yield _bar(LEFT, 0, story.phases[0].begin_s * scale, "#7a8ca0", "before the fault", 0.35)
        for phase in story.phases:
            yield self._phase(phase, scale)
        yield _text(0, BAR + GAP + BAR * 0.7, "without it")
        yield _bar(LEFT, BAR + GAP, story.end_without_s * scale, "#7a8ca0", f"ends at {story.end_without_s:.6f} s", 0.35)
        yield _text(LEFT, height - 4, "0 s")
        yield _text(WIDTH - 10, height - 4, f"{last_s:.6g} s of virtual time", "end")
        yield "</svg>"

    def _phase(self, phase: Phase, scale: float) -> str:
        color = COLORS.get(phase.name, "#7a8ca0")
        width = max(1.5, (phase.end_s - phase.begin_s) * scale)
        what = f"{phase.name}: {phase.begin_s:.6f} to {phase.end_s:.6f} s, cost {phase.cost_s:+.6f} s"
        bar = _bar(LEFT + phase.begin_s * scale, 0, width, color, what)
        name = _text(LEFT + phase.begin_s * scale + 4, BAR * 0.68, phase.name, fill="#ffffff") if width > 8 * len(phase.name) else ""
        return bar + name


def _bar(x: float, y: float, width: float, color: str, what: str, opacity: float = 1.0) -> str:
    size = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BAR}"'
    return f'<rect {size} rx="3" fill="{color}" fill-opacity="{opacity}"><title>{escape(what)}</title></rect>'


def _text(x: float, y: float, text: str, anchor: str = "start", fill: str = "currentColor") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'


def _swatch(name: str) -> str:
    """The colour of a phase before its name; the same room before other names."""
    square = "display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:7px"
    return f'<span style="{square};background:{COLORS.get(name, "transparent")}"></span>'


def _cut(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…"
