"""Plans of faults as tables: each fault, when it is to begin and to end, and what has become of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from html import escape

from simdist.faults.base import KINDS, Fault

__all__ = ["Row", "as_html", "as_text", "kinds_table", "rows_of"]

HEADINGS = ("fault", "begins", "ends", "state", "fired", "healed")


@dataclass(frozen=True)
class Row:
    """One fault: the cells under `HEADINGS`, and its figures in words."""

    cells: tuple[str, ...]
    figures: str


def rows_of(faults: Iterable[Fault], state: Callable[[Fault], str]) -> list[Row]:
    """A row for each fault."""
    return [_row(fault, state(fault)) for fault in faults]


def _row(fault: Fault, state: str) -> Row:
    begins = fault.trigger.describe()
    what = fault.describe().replace(f", {begins})", ")")
    lasts = "until" in fault.figures
    ends = "never" if fault.ends_s is None else _seconds(fault.ends_s)
    cells = (what, begins, ends if lasts else "-", state, _seconds(fault.fired_s), _seconds(fault.healed_s))
    return Row(cells, ", ".join(f"{name}={value!r}" for name, value in _plain(fault).items()))


def _plain(fault: Fault) -> dict[str, object]:
    """The figures that no cell tells and that differ from their defaults."""
    defaults = {item.name: item.default for item in fields(fault)}
    names = [name for name, parameter in fault.parameters().items() if parameter.type not in ("task", "tasks") and name != "until"]
    return {name: fault.figures[name] for name in names if defaults[name] is MISSING or fault.figures[name] != defaults[name]}


def _seconds(time_s: float | None) -> str:
    return "-" if time_s is None else f"{time_s:.6g} s"


def as_text(rows: Sequence[Row]) -> str:
    """The table for a terminal; figures stand below their fault."""
    if not rows:
        return "no faults"
    widths = [max(len(cells[place]) for cells in (HEADINGS, *(row.cells for row in rows))) for place in range(len(HEADINGS))]
    lines = [_line(HEADINGS, widths)]
    for row in rows:
        lines.append(_line(row.cells, widths))
        lines += [f"  {row.figures}"] if row.figures else []
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def as_html(rows: Sequence[Row]) -> str:
    """The table for a notebook."""
    if not rows:
        return "<p>no faults</p>"
    head = "".join(f"<th>{heading}</th>" for heading in (HEADINGS[0], "figures", *HEADINGS[1:]))
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in (row.cells[0], row.figures, *row.cells[1:])) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def kinds_table() -> str:
    """All kinds of faults with their parameters, in Markdown: type, unit and bounds as they were declared.

    Example:
        >>> from simdist.faults import process
        >>> print(next(line for line in kinds_table().splitlines() if line.startswith("| slow | factor")))
        | slow | factor | number | more than 0, and finite | on the time of what it computes; 2.0 means half as fast |
    """
    lines = ["| kind | parameter | type | takes | meaning |", "|---|---|---|---|---|"]
    for kind, cls in sorted(KINDS.items()):
        for name, each in cls.parameters().items():
            takes = each.bounds + (", or None" if each.optional else "")
            lines.append(f"| {kind} | {each.called or name} | {each.type} | {takes} | {each.says} |")
    return "\n".join(lines)
