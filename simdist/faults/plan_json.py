"""Faults as text, and back: JSON with the version of the format, and for each fault its kind, its figures and its trigger.

    {"version": 1, "faults": [{"kind": "slow", "task": "worker:0", "factor": 3.0, "until": 2.0, "at": 0.5}]}

Figures that have their default are left out. Invariant: what is read back equals what was written, figure by figure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any, cast

from simdist.errors import InvalidArgumentError, did_you_mean
from simdist.faults.base import KINDS, Fault
from simdist.faults.triggers import FIGURES, Trigger

__all__ = ["VERSION", "fault_from_plain", "faults_from_json", "faults_to_json", "items_of", "plain_fault"]

VERSION = 1


def faults_to_json(faults: Sequence[Fault]) -> str:
    """Text of some faults.

    Raises:
        InvalidArgumentError: one begins when a predicate holds.
    """
    return json.dumps({"version": VERSION, "faults": [plain_fault(fault) for fault in faults]}, allow_nan=False)


def faults_from_json(text: str) -> list[Fault]:
    """The faults of a text.

    Raises:
        InvalidArgumentError: it is no such text, or has a kind, a figure or a version that is not known.
    """
    return [fault_from_plain(item) for item in items_of(text, "plan of faults", "faults", VERSION)]


def items_of(text: str, what: str, field: str, version: int) -> list[Any]:
    """The items of a text that has the version of its format and one list.

    Args:
        text: JSON.
        what: it should be, for error messages.
        field: the name of the list.
        version: the only one that is known.

    Raises:
        InvalidArgumentError: it is no such text, or has another version.

    Example:
        >>> items_of('{"version": 1, "faults": []}', "plan of faults", "faults", 1)
        []
    """
    try:
        given: Any = json.loads(text, object_pairs_hook=_once_each)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"This is no {what}: {error}. Give the text that was written as JSON.") from error
    if not isinstance(given, dict) or set(cast("dict[str, Any]", given)) != {"version", field}:
        raise InvalidArgumentError(f"This is no {what}: it has not the fields 'version' and {field!r}, and no others.")
    found, items = given["version"], given[field]
    if isinstance(found, bool) or found != version:
        raise InvalidArgumentError(f"version={found!r} of a {what} is not known. Known: {version}.")
    if not isinstance(items, list):
        raise InvalidArgumentError(f"{field}={items!r} must be a list.")
    return cast("list[Any]", items)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice, and only one of them can count")
    return found


def plain_fault(fault: Fault) -> dict[str, Any]:
    """A fault as an item of a plan.

    Raises:
        InvalidArgumentError: it begins when a predicate holds.
    """
    if fault.trigger.when is not None:
        raise InvalidArgumentError(
            f"{fault.describe()} begins when a predicate holds, which has no text. Give it at= or after_steps=, or plan it in code."
        )
    defaults = {item.name: item.default for item in fields(fault)}
    figures = {name: value for name, value in fault.figures.items() if defaults[name] is MISSING or value != defaults[name]}
    return {"kind": fault.kind, **figures, **_moment(fault.trigger)}


def _moment(trigger: Trigger) -> dict[str, Any]:
    return {name: value for name in FIGURES if (value := getattr(trigger, name)) is not None}


def fault_from_plain(given: Any) -> Fault:
    """The fault of one item of a plan.

    Raises:
        InvalidArgumentError: it has a kind or a figure that is not known, or lacks one.
    """
    if not isinstance(given, dict) or "kind" not in given:
        raise InvalidArgumentError(f"{given!r} is no fault: it has no 'kind'. {did_you_mean('', KINDS)}")
    figures = cast("dict[str, Any]", dict(given))
    kind = figures.pop("kind")
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise InvalidArgumentError(
            f"kind={kind!r} of a fault is not known. {did_you_mean(str(kind), KINDS)} One of your own is known when its class is defined."
        )
    parameters = cls.parameters()
    for name in figures:
        if name not in parameters and name not in FIGURES:
            raise InvalidArgumentError(f"{kind} has no figure {name!r}. {did_you_mean(name, [*parameters, *FIGURES])}")
    missing = [item.name for item in fields(cls) if item.name in parameters and item.default is MISSING and item.name not in figures]
    if missing:
        raise InvalidArgumentError(f"{kind} lacks the figure{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))}.")
    trigger = Trigger(**{name: figures.pop(name) for name in FIGURES if name in figures})
    fault = cls(**figures, trigger=trigger)
    fault.check()
    return fault
