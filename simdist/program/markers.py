"""What the markers of a traced step stand for: one class for each thing that a step does to the outside.

A collective stands in the jaxpr itself (`simdist.program.collective`), because JAX can differentiate it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from simdist.program.operations import Rule, VariableHandle
from simdist.program.row_numbers import HostIds
from simdist.program.step_iterator import BatchSignature

__all__ = ["ArgumentMarker", "CheckMarker", "KeyMarker", "Marker", "NextMarker", "ReadMarker", "RowsMarker", "UpdateMarker"]


@dataclass(frozen=True)
class NextMarker:
    """The next batch of the iterator that is argument number `iterator`."""

    kind: ClassVar = "next"
    iterator: int
    signature: BatchSignature


@dataclass(frozen=True)
class ArgumentMarker:
    """The arrays that the caller passes."""

    kind: ClassVar = "argument"


@dataclass(frozen=True)
class ReadMarker:
    """The value of a variable at this place; one that is optional is not read where nothing uses its value."""

    kind: ClassVar = "read"
    variable: VariableHandle
    optional: bool = False


@dataclass(frozen=True)
class RowsMarker:
    """Rows of a variable at this place, and for each id which of them it means; `number` tells the row reads of one step apart."""

    kind: ClassVar = "read rows"
    variable: VariableHandle
    number: int
    ids: HostIds


@dataclass(frozen=True)
class KeyMarker:
    """A fresh random key; `salt` tells the keys of one step apart."""

    kind: ClassVar = "key"
    salt: int


@dataclass(frozen=True)
class UpdateMarker:
    """A change of variables, by the operands of the marker; for each that is a gradient of rows, the number of the row read."""

    kind: ClassVar = "update"
    rule: Rule
    variables: tuple[VariableHandle, ...]
    row_reads: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class CheckMarker:
    """Stop where the operand is not finite, and say `message`."""

    kind: ClassVar = "check"
    message: str


Marker = NextMarker | ArgumentMarker | ReadMarker | RowsMarker | KeyMarker | UpdateMarker | CheckMarker
