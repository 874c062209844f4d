"""What a driver and its tasks say to each other. Each request has one reply: the one that it names, or `Failed`.

Arrays are those of the sender at the moment of sending. A bundle is a tuple of arrays; its type follows from the program or the group.
"""

from __future__ import annotations

import dataclasses
import types
from dataclasses import dataclass
from typing import Any, ClassVar, get_origin, get_type_hints

from simdist.errors import InvalidArgumentError
from simdist.runtime.wire.codec import decode, encode
from simdist.runtime.wire.failures import Failure

__all__ = [
    "BeginStep",
    "ChangeGroup",
    "Confirmed",
    "EndStep",
    "Failed",
    "FetchGroups",
    "FetchRows",
    "FetchedGroups",
    "ForgetGroup",
    "InCollective",
    "JoinGroups",
    "JoinReplicas",
    "Message",
    "PutGroup",
    "ResumeStep",
    "StepEnded",
    "TakeKernel",
    "TakeProgram",
    "read_message",
]

Arrays = tuple[Any, ...]


class Message:
    """A request or a reply; subclasses are dataclasses of plain values."""

    kinds: ClassVar[dict[str, type[Message]]] = {}

    def __init_subclass__(cls) -> None:
        Message.kinds[cls.__name__] = cls

    def to_bytes(self) -> bytes:
        """The message as it is sent.

        Raises:
            InvalidArgumentError: something in it is no data.
        """
        fields: Any = self
        return encode((type(self).__name__, *(getattr(self, field.name) for field in dataclasses.fields(fields))))


def read_message(data: bytes) -> Message:
    """The request or reply that was sent.

    Raises:
        InvalidArgumentError: it is damaged, or no message of this format.
        FailedPreconditionError: another version of the format.
    """
    content: Any = decode(data)
    name, *values = content if isinstance(content, tuple) and content else (None,)
    cls: Any = Message.kinds.get(name) if isinstance(name, str) else None
    if cls is None:
        raise InvalidArgumentError(f"A message is of kind {name!r}, which nobody knows. Install the same version of simdist on both sides.")
    hints = get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    if len(names) != len(values) or not all(map(_is_a, values, [hints[name] for name in names])):
        raise InvalidArgumentError(f"A message {name} has other fields than {', '.join(names)}. Send what its to_bytes gives.")
    return cls(*values)


def _is_a(value: Any, hint: Any) -> bool:
    """Whether a value has the type of a field, as far as its outermost layer tells."""
    if isinstance(hint, types.UnionType):
        return any(_is_a(value, one) for one in hint.__args__)
    expected = get_origin(hint) or hint
    return isinstance(value, expected) and (expected is not int or not isinstance(value, bool))


# -- what tasks keep -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TakeKernel(Message):
    """Keep a kernel (`encode_kernel`), under its digest. Confirmed."""

    kernel: bytes


@dataclass(frozen=True, eq=False)
class TakeProgram(Message):
    """Keep a program (`encode_program`), under its digest; its kernels were sent before. Confirmed."""

    program: bytes


@dataclass(frozen=True, eq=False)
class PutGroup(Message):
    """Hold a group from now on. Confirmed."""

    group: int
    arrays: Arrays


@dataclass(frozen=True, eq=False)
class JoinGroups(Message):
    """Hold a group that was made of others, which programs may still name. Confirmed.

    Attributes:
        joined: of each old group its number, and for each of its arrays the position in the new one.
    """

    group: int
    arrays: Arrays
    joined: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, eq=False)
class ForgetGroup(Message):
    """Hold a group no longer. Confirmed."""

    group: int


@dataclass(frozen=True, eq=False)
class FetchGroups(Message):
    """The present versions of groups: `FetchedGroups`."""

    groups: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FetchRows(Message):
    """Rows of the present version of one array of a group: `FetchedGroups` with this one array.

    Attributes:
        position: of the array in the group.
        rows: one array of row numbers.
    """

    group: int
    position: int
    rows: Arrays


@dataclass(frozen=True, eq=False)
class ChangeGroup(Message):
    """Make the next version of a group: a kernel of its arrays and of the operands. Confirmed.

    Attributes:
        where: who wants it, for the notes of errors.
    """

    group: int
    kernel: str
    operands: Arrays
    where: str


# -- steps ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BeginStep(Message):
    """Run a program until it has ended or is in a collective: `StepEnded` or `InCollective`.

    Attributes:
        step: by which the step is named in later messages; replicas of one step share it.
        rank: which replica of it; None for the step of a worker.
        is_alone: whether the step has one replica only.
        program: its digest.
        number: steps that the task has taken before.
        draw: those of them that drew random numbers; random keys depend on it.
        arguments: the arrays of the call.
        batches: for each iterator argument the batches that the step takes; each a tuple of arrays.
        holders: for each group that the program names, the tasks that hold it.
        changed: groups of the chief that earlier steps of the closure have changed, as the closure sees them.
        counted: of a replica of a worker: which operations read what all of these have counted; None: it is none.
    """

    step: int
    rank: int | None
    is_alone: bool
    device: str
    program: str
    number: int
    draw: int
    arguments: Arrays
    batches: tuple[tuple[Arrays, ...], ...]
    holders: tuple[tuple[int, tuple[str, ...]], ...]
    changed: tuple[tuple[int, Arrays], ...] = ()
    counted: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False)
class ResumeStep(Message):
    """Go on with what a collective gave: as `BeginStep`."""

    step: int
    rank: int
    arrays: Arrays


@dataclass(frozen=True, eq=False)
class JoinReplicas(Message):
    """All replicas of a worker have come to the same update, or read: do what is done once for all of them. Confirmed."""

    step: int


@dataclass(frozen=True, eq=False)
class EndStep(Message):
    """A step of replicas is over for all of them: what it changed counts, or is dropped. Confirmed; a worker's that counts: `StepEnded`."""

    step: int
    counts: bool


# -- replies -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Confirmed(Message):
    """It is done."""


@dataclass(frozen=True, eq=False)
class FetchedGroups(Message):
    """The arrays of each group, in the order of the request."""

    groups: tuple[Arrays, ...]


@dataclass(frozen=True, eq=False)
class StepEnded(Message):
    """A step has ended.

    Attributes:
        result: its arrays.
        kept: updates of the chief's variables, which the chief makes if it accepts the reply: the rank of the replica (0 where the worker
            is one), the number of the operation, the number of the part in it, the operands.
        observed: what the step has looked at, in order.
    """

    result: Arrays
    kept: tuple[tuple[int, int, int, Arrays], ...]
    observed: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class InCollective(Message):
    """A replica waits for the others in operation number `operation` of its program; to a collective it gives these arrays."""

    operation: int
    arrays: Arrays
    observed: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Failed(Message):
    """It could not be done."""

    error: Failure
    observed: tuple[str, ...] = ()
