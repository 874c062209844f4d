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

__all__ = ["VERSION", "fault_from_plain", "faults_from_json", "faults_to_json", "plain_fault"]

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
    try:
        given: Any = json.loads(text)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"This is no plan of faults: {error}. Give the text that to_json() made.") from error
    if not isinstance(given, dict) or set(cast("dict[str, Any]", given)) != {"version", "faults"}:
        raise InvalidArgumentError("This is no plan of faults: it has not the fields 'version' and 'faults', and no others.")
    version, faults = given["version"], given["faults"]
    if isinstance(version, bool) or version != VERSION:
        raise InvalidArgumentError(f"version={version!r} of a plan of faults is not known. Known: {VERSION}.")
    if not isinstance(faults, list):
        raise InvalidArgumentError(f"faults={faults!r} must be a list.")
    return [fault_from_plain(item) for item in cast("list[Any]", faults)]


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
        raise InvalidArgumentError(f"kind={kind!r} of a fault is not known. {did_you_mean(str(kind), KINDS)}")
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
