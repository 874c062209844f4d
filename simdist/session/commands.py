"""Commands: the faults that were injected into a run, and when; as JSON, so that another session can do it again.

    {"version": 1, "commands": [{"at_s": 0.012, "after_events": 845, "fault": {"kind": "crash", "task": "worker:1"}}]}

A command is done between two events. With the same commands before it a run is the same, so the number of the events that have
happened says exactly where. In a fork that lacks one of them other events happen; there the virtual second
counts: the command is done when all that is due until then has happened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, cast

import numpy as np

from simdist.arguments import END_S, number, whole_number
from simdist.errors import InvalidArgumentError
from simdist.faults.base import Fault
from simdist.faults.plan_json import fault_from_plain, items_of, plain_fault

__all__ = [
    "Command",
    "command_from_plain",
    "commands_from_json",
    "commands_of",
    "commands_to_json",
    "in_order",
    "plain_command",
    "plain_command_fault",
]

VERSION = 1


@dataclass(frozen=True)
class Command:
    """A fault that is injected into a run.

    Args:
        at_s: the virtual second at which it is injected.
        fault: as in the JSON of a plan of faults, for example ``{"kind": "crash", "task": "worker:1"}``. Without ``"at"`` or
            ``"after_steps"`` it begins at once. The command has a copy, as JSON holds it.
        after_events: how many events have happened before it; None: all that are due until `at_s`.

    Raises:
        InvalidArgumentError: a second or a number that is none, or a fault that is not known.
        TypeError: no number, or no fault.

    Example:
        >>> Command(0.5, {"kind": "slow", "task": "worker:0", "factor": 3.0, "until": 2.0})
        Command(at_s=0.5, fault={'kind': 'slow', 'task': 'worker:0', 'factor': 3.0, 'until': 2.0}, after_events=None)
    """

    at_s: float
    fault: Mapping[str, Any]
    after_events: int | None = None

    def __post_init__(self) -> None:
        after_events = None if self.after_events is None else whole_number(self.after_events, "after_events", 0)
        as_json = {"at_s": number(self.at_s, "at_s", below=END_S), "fault": plain_command_fault(self.fault), "after_events": after_events}
        for name, value in as_json.items():
            object.__setattr__(self, name, value)
        self.fault_at(self.at_s)

    def fault_at(self, now_s: float) -> Fault:
        """The fault itself, to be planned at a virtual second."""
        given = dict(self.fault)
        if "at" not in given and "after_steps" not in given:
            given["at"] = now_s
        return fault_from_plain(given)

    def by_time(self) -> Command:
        """The same for a run in which other events happen."""
        return replace(self, after_events=None)


def plain_command_fault(fault: Fault | Mapping[str, Any]) -> Mapping[str, Any]:
    """A fault as a command has it.

    Raises:
        TypeError: it is neither a fault nor a mapping.
        InvalidArgumentError: it begins when a predicate holds.
    """
    if isinstance(fault, Fault):
        fault = plain_fault(fault)
    if not isinstance(cast("object", fault), Mapping):
        raise TypeError(f"fault is {fault!r:.200}; expected a fault, or a dict such as {{'kind': 'crash', 'task': 'worker:1'}}")
    return {name: _plain(value) for name, value in fault.items()}


def _plain(value: Any) -> Any:
    """A figure as JSON holds it, also one of numpy, and a list of its own."""
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    return list(cast("list[Any]", value)) if isinstance(value, (list, tuple)) else value


def in_order(commands: Iterable[Command]) -> list[Command]:
    """By virtual second; those of one second in the order in which they are given."""
    return sorted(commands, key=lambda command: command.at_s)


def commands_of(commands: Iterable[Command], name: str) -> list[Command]:
    """The commands that an argument of this name has.

    Raises:
        TypeError: it is no list, or has something else.
    """
    if not isinstance(cast("object", commands), Iterable):
        raise TypeError(f"{name} is {commands!r}; expected a list of commands")
    given = list(commands)
    wrong = [command for command in given if not isinstance(cast("object", command), Command)]
    if wrong:
        raise TypeError(f"{name} has {wrong[0]!r}; expected the commands of a session, or those of commands_from_json(text)")
    return given


def commands_to_json(commands: Sequence[Command]) -> str:
    """Text of some commands.

    Example:
        >>> commands_to_json([Command(0.5, {"kind": "crash", "task": "worker:1"})])
        '{"version": 1, "commands": [{"at_s": 0.5, "fault": {"kind": "crash", "task": "worker:1"}}]}'
    """
    return json.dumps({"version": VERSION, "commands": [plain_command(command) for command in commands]}, allow_nan=False)


def commands_from_json(text: str) -> list[Command]:
    """The commands of a text.

    Raises:
        InvalidArgumentError: it is no such text, or has a version, a field or a fault that is not known.

    Example:
        >>> commands_from_json('{"version": 1, "commands": [{"at_s": 0.5, "fault": {"kind": "crash", "task": "worker:1"}}]}')
        [Command(at_s=0.5, fault={'kind': 'crash', 'task': 'worker:1'}, after_events=None)]
    """
    return [command_from_plain(item) for item in items_of(text, "list of commands", "commands", VERSION)]


def plain_command(command: Command) -> dict[str, Any]:
    """A command as an item of JSON."""
    exactly = {} if command.after_events is None else {"after_events": command.after_events}
    return {"at_s": command.at_s, **exactly, "fault": dict(command.fault)}


def command_from_plain(given: Any) -> Command:
    """The command of one item of JSON.

    Raises:
        InvalidArgumentError: it lacks a field, has another one, or has a figure that makes no sense.
    """
    fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    if not {"at_s", "fault"} <= set(fields) <= {"at_s", "after_events", "fault"} or not isinstance(fields["fault"], dict):
        raise InvalidArgumentError(f"{given!r:.200} is no command: it needs 'at_s' and 'fault', and may have 'after_events'.")
    try:
        return Command(**fields)
    except TypeError as error:
        raise InvalidArgumentError(f"{given!r:.200} is no command: {error}") from error
