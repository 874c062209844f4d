"""What was done in a Lab, as a table of text that is the same on every machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simdist.session import Session

__all__ = ["as_text", "line_of"]

HEADER = ("verb", "state", "now", "commands")
WIDTHS = (26, 9, 12, 0)


def line_of(message: Mapping[str, Any], answer: Mapping[str, Any], session: Session, known: BaseException | None = None) -> tuple[str, ...]:
    """The cells of one line: what was done, and where the session stands then; then the lines of its error, and of the answer.

    Args:
        message, answer: the verb, and what came of it.
        session: of the branch that is shown then.
        known: the error that it had before.
    """
    error = session.error
    failed = [] if error is None or error is known else f"{type(error).__name__}: {error}".splitlines()
    return (_what(message), session.state, f"{session.now:.6f} s", str(len(session.commands)), *failed, *_answer(answer))


def as_text(lines: Sequence[Sequence[str]]) -> str:
    """The table; an error with which the session has failed, and what a verb answered, stand below its line."""
    rows = [HEADER, *lines]
    width = max(WIDTHS[0], *(len(row[0]) for row in rows))
    text: list[str] = []
    for row in rows:
        what, state, now, commands, *more = row
        text.append(f"{what:<{width}} {state:<{WIDTHS[1]}} {now:>{WIDTHS[2]}}  {commands}".rstrip())
        text += [f"    {line}" for line in more]
    return "\n".join(text)


def _what(message: Mapping[str, Any]) -> str:
    verb = str(message.get("verb"))
    if verb == "inject" and isinstance(message.get("fault"), Mapping):
        fault = dict(message["fault"])
        kind = fault.pop("kind", "?")
        return f"inject {kind} {_figures(fault)}".rstrip()
    return f"{verb} {_figures({name: value for name, value in message.items() if name != 'verb'})}".rstrip()


def _figures(figures: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in figures.items())


def _answer(answer: Mapping[str, Any]) -> list[str]:
    story = answer.get("recovery")
    text = str(story["text"]) if story is not None else str(answer.get("text", ""))
    return text.splitlines()
