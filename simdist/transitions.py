"""Tables of transitions: what a state machine does with each fact, in each state.

A machine without I/O takes facts and gives decisions. Its table names every fact that may come in a state, and what follows; a fact that
may come and changes nothing is in the table as well, with the reason. Every other pair of state and fact is impossible, and raises: then
the machine, or its caller, is wrong, and nothing that follows could be trusted.

What may live in this file: what all such machines share. No machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

__all__ = ["Ignored", "ImpossibleFactError", "Move", "TransitionTable"]

State = TypeVar("State", bound=StrEnum)
Fact = TypeVar("Fact", bound=StrEnum)
Decision = TypeVar("Decision", bound=StrEnum)


class ImpossibleFactError(AssertionError):
    """A fact has come that its state excludes: an error of the engine, not of a program."""


@dataclass(frozen=True)
class Move(Generic[State, Decision]):
    """A fact leads to a state, and to decisions that the caller carries out, in this order."""

    to: State
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True)
class Ignored:
    """A fact that may come, and changes nothing."""

    reason: str


class TransitionTable(Generic[State, Fact, Decision]):
    """What follows from each fact, in each state.

    Args:
        name: of the machine, for messages.
        start: the state that everything begins in.
        rows: what follows from a state and a fact.

    Example:
        >>> Door = StrEnum("Door", ["OPEN", "SHUT"])
        >>> Hand = StrEnum("Hand", ["PUSH", "KNOCK"])
        >>> table = TransitionTable("door", Door.OPEN, {(Door.OPEN, Hand.PUSH): Move(Door.SHUT), (Door.SHUT, Hand.KNOCK): Ignored("deaf")})
        >>> table.after(Door.OPEN, Hand.PUSH).to
        <Door.SHUT: 'shut'>
        >>> print(table.diagram())
        stateDiagram-v2
            [*] --> open
            open --> shut: push
            shut --> shut: knock (ignored, deaf)
            shut --> [*]
    """

    def __init__(self, name: str, start: State, rows: Mapping[tuple[State, Fact], Move[State, Decision] | Ignored]) -> None:
        self.name = name
        self.start = start
        self.rows = dict(rows)

    def after(self, state: State, fact: Fact, of: object = "") -> Move[State, Decision] | Ignored:
        """What follows from a fact in a state.

        Args:
            state, fact: which.
            of: whose state it is, for the message.

        Raises:
            ImpossibleFactError: nothing; it cannot come there.
        """
        found = self.rows.get((state, fact))
        if found is None:
            raise ImpossibleFactError(
                f"{self.name}: the fact '{_words(fact)}' is impossible in the state '{_words(state)}'{f' (of {of})' if of != '' else ''}. "
                f"Possible there: {', '.join(_words(known) for at, known in self.rows if at is state) or 'nothing'}. Unless you gave "
                "it the facts yourself, this is an error of simdist: please report it with the program."
            )
        return found

    def diagram(self) -> str:
        """The table as a state diagram in Mermaid's language; decisions stand behind a slash."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.start}"]
        for (state, fact), row in self.rows.items():
            if isinstance(row, Ignored):
                lines.append(f"    {state} --> {state}: {_words(fact)} (ignored, {row.reason})")
            else:
                decisions = " / " + ", ".join(map(_words, row.decisions)) if row.decisions else ""
                lines.append(f"    {state} --> {row.to}: {_words(fact)}{decisions}")
        left = {state for state, _ in self.rows if any(isinstance(row, Move) for (at, _), row in self.rows.items() if at is state)}
        ends = dict.fromkeys(row.to for row in self.rows.values() if isinstance(row, Move) and row.to not in left)
        return "\n".join([*lines, *(f"    {end} --> [*]" for end in ends)])


def _words(member: StrEnum) -> str:
    return member.replace("_", " ")
