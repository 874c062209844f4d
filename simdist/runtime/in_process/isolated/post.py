"""The driver's end of the line: sends requests, and each kernel and program once to each task that needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from simdist.errors import AbortedError
from simdist.program.function import BoundCall
from simdist.program.kernels import Kernel
from simdist.runtime.in_process.computing import next_batch
from simdist.runtime.in_process.isolated.switchboard import Deliver
from simdist.runtime.linked import ApplyAll, LinkedProgram, ReadGroups, ReadWithRows, RunKernel, TakeBatch
from simdist.runtime.wire.failures import error_of
from simdist.runtime.wire.kernels import digest_of, encode_kernel
from simdist.runtime.wire.messages import Confirmed, Failed, InCollective, Message, StepEnded, TakeKernel, TakeProgram, read_message
from simdist.runtime.wire.programs import encode_program

__all__ = ["Holders", "Post", "batches_of", "groups_of"]

Reply = TypeVar("Reply", bound=Message)

Holders = tuple[tuple[int, tuple[str, ...]], ...]
"""For each of some groups, the tasks that hold it."""


class Post:
    """Requests of the driver.

    Args:
        deliver: brings bytes to a task, and its reply back.
        observed: is called with what a step of a task has observed: (task, message).
    """

    def __init__(self, deliver: Deliver, observed: Callable[[str, str], None]) -> None:
        self._deliver = deliver
        self._observed = observed
        self._sent: set[tuple[str, str]] = set()  # task, and the digest of what it has
        self._programs: WeakKeyDictionary[LinkedProgram, tuple[str, bytes]] = WeakKeyDictionary()
        self._kernels: WeakKeyDictionary[Kernel, str] = WeakKeyDictionary()

    def ask(self, task: str, request: Message, *expected: type[Reply]) -> Reply:
        """The reply of a task, which is of one of these kinds.

        Raises:
            Exception: like the one that the request failed with.
        """
        reply = read_message(self._deliver(task, request.to_bytes()))
        if isinstance(reply, (StepEnded, InCollective, Failed)):
            for message in reply.observed:
                self._observed(task, message)
        if isinstance(reply, Failed):
            raise error_of(reply.error)
        if not isinstance(reply, expected):
            raise AbortedError(
                f"{task} replied {type(reply).__name__} to {type(request).__name__}; expected "
                f"{' or '.join(kind.__name__ for kind in expected)}. Install the same version of simdist on both sides."
            )
        return reply

    def kernel(self, task: str, kernel: Kernel) -> str:
        """The digest of a kernel, which the task has now."""
        digest = self._kernels.get(kernel)
        if digest is None:
            digest = self._kernels[kernel] = digest_of(encode_kernel(kernel))
        if (task, digest) not in self._sent:
            self.ask(task, TakeKernel(encode_kernel(kernel)), Confirmed)
            self._sent.add((task, digest))
        return digest

    def program(self, task: str, linked: LinkedProgram, holders: Holders) -> str:
        """The digest of a program, which the task has now; and the tasks that it changes groups on have the kernels for that."""
        for op in linked.operations:
            if isinstance(op, RunKernel):
                self.kernel(task, op.kernel)
            elif isinstance(op, ReadWithRows):
                for table in op.tables:
                    self.kernel(task, table.ids.kernel)
            elif isinstance(op, ApplyAll):
                changed = dict(holders)
                for form in [form for part in op.parts for form in part.forms]:
                    for one in (task, *changed[form.group]):
                        self.kernel(one, form.kernel)
        if linked not in self._programs:
            data = encode_program(linked, lambda kernel: self._kernels[kernel])
            self._programs[linked] = digest_of(data), data
        digest, data = self._programs[linked]
        if (task, digest) not in self._sent:
            self.ask(task, TakeProgram(data), Confirmed)
            self._sent.add((task, digest))
        return digest


def groups_of(linked: LinkedProgram) -> Sequence[int]:
    """The groups that a program reads or changes."""
    found: dict[int, None] = {}
    for op in linked.operations:
        if isinstance(op, ReadGroups):
            found.update(dict.fromkeys(op.numbers))
        elif isinstance(op, ReadWithRows):
            found.update(dict.fromkeys(op.groups))
        elif isinstance(op, ApplyAll):
            found.update(dict.fromkeys(part.group for part in op.parts))
    return list(found)


def batches_of(linked: LinkedProgram, call: BoundCall, task: str) -> tuple[tuple[tuple[Any, ...], ...], ...]:
    """For each iterator of a call, the arrays of the batches that one step takes.

    Raises:
        OutOfRangeError: there are not so many left.
    """
    taken: list[list[tuple[Any, ...]]] = [[] for _ in call.iterators]
    for op in linked.operations:
        if isinstance(op, TakeBatch):
            taken[op.iterator].append(tuple(next_batch(call.iterators[op.iterator], task).leaves()))
    return tuple(map(tuple, taken))
